// Each block sorts 512 keys in registers and shared memory, with CUB.
#include <cub/block/block_radix_sort.cuh>

extern "C" __global__ void __launch_bounds__(128) block_sort(unsigned *keys) {
    using Sort = cub::BlockRadixSort<unsigned, 128, 4>;
    __shared__ typename Sort::TempStorage storage;
    unsigned own[4];
    unsigned *first = keys + (blockIdx.x * 128 + threadIdx.x) * 4;
    *(uint4 *)own = *(const uint4 *)first;
    Sort(storage).Sort(own);
    *(uint4 *)first = *(const uint4 *)own;
}
