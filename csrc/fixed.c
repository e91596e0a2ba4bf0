#include "fpp.h"
#define FPP_EXPORT __attribute__((visibility("default")))
