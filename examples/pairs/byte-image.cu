// Inverts an image of bytes. The fault: a lane moves one byte, a warp's request 32. The cure: 16 bytes per lane.
extern "C" __global__ void fault(int count, const unsigned char *in, unsigned char *out)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        out[i] = 255 - in[i];
}

extern "C" __global__ void cure(int count, const uint4 *in, uint4 *out)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count / 16; i += gridDim.x * blockDim.x) {
        uint4 x = in[i];
        out[i] = make_uint4(~x.x, ~x.y, ~x.z, ~x.w);
    }
}
