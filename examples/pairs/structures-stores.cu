// A ballistic step that writes three fields. The fault: results go to records of 64 bytes, so that lanes write
// 4 bytes of a sector each. The cure: one array per field.
constexpr int kFields = 16;

__device__ float height(float v, float t) { return v * t - 4.905f * t * t; }

extern "C" __global__ void fault(int count, float t, const float *speed, float *records)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float v = speed[i];
    float *record = records + (long long)i * kFields;
    record[0] = height(v, t);
    record[5] = v - 9.81f * t;
    record[10] = 0.5f * v * v;
}

extern "C" __global__ void cure(int count, float t, const float *speed, float *records)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float v = speed[i];
    records[i] = height(v, t);
    records[5 * count + i] = v - 9.81f * t;
    records[10 * count + i] = 0.5f * v * v;
}
