// The LZ4 frame API as Swift sees it.
#pragma once
#include <lz4frame.h>
