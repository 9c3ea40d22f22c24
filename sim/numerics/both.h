// SHARDSIM_BOTH marks a function that runs on the host and on a GPU: nvcc compiles it for the card, the tests run it with g++.
#pragma once

#ifdef __CUDACC__
#define SHARDSIM_BOTH __host__ __device__
#else
#define SHARDSIM_BOTH
#endif
