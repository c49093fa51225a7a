// Errors of CUDA end a program.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#define CHECK(call)                                                                            \
    do {                                                                                       \
        cudaError_t error_ = (call);                                                           \
        if (error_ != cudaSuccess) {                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error_));    \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)
