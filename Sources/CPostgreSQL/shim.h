// libpq as Swift sees it.
#pragma once
#include <libpq-fe.h>
