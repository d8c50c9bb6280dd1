// nghttp2 as Swift sees it.
#pragma once
#include <nghttp2/nghttp2.h>
