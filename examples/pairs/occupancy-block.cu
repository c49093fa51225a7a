// A hash over samples that stops at a zero, so loads cannot run ahead. The fault: blocks of one warp, of which an SM
// holds 32: half of its warps. The cure: the same threads in blocks of 256.
__device__ void hash(int threads, int samples, const unsigned *in, unsigned *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned state = 0x811c9dc5u;
    for (int k = 0; k < samples; ++k) {
        unsigned sample = in[k * threads + i];
        if (sample == 0)
            break;
        state = (state ^ sample) * 0x01000193u;
        state ^= state >> 15;
    }
    out[i] = state;
}

extern "C" __global__ void fault(int threads, int samples, const unsigned *in, unsigned *out)
{
    hash(threads, samples, in, out);
}

extern "C" __global__ void cure(int threads, int samples, const unsigned *in, unsigned *out)
{
    hash(threads, samples, in, out);
}
