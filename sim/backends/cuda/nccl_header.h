// NCCL's own header, on machines that have it: where they do not, NCCL_MAJOR is not defined.
#pragma once
#if __has_include(<nccl.h>)
#include <nccl.h>
#endif
