// y = a x + y. The fault: 4 bytes per lane, so too few bytes are in flight to fill the DRAM.
// The cure: 16 bytes per lane.
extern "C" __global__ void fault(int count, float a, const float *x, float *y)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        y[i] = a * x[i] + y[i];
}

extern "C" __global__ void cure(int count, float a, const float4 *x, float4 *y)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count / 4; i += gridDim.x * blockDim.x) {
        float4 p = x[i], q = y[i];
        y[i] = make_float4(a * p.x + q.x, a * p.y + q.y, a * p.z + q.z, a * p.w + q.w);
    }
}
