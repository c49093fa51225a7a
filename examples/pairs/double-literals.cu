// A damped oscillator in single precision. The fault: literals without f make the arithmetic double, with
// conversions in every step. The cure: float literals.
extern "C" __global__ void fault(int steps, const float *start, float *end)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float position = start[i], speed = 0.0f;
    for (int step = 0; step < steps; ++step) {
        speed = speed * 0.99 - position * 0.02;
        position = position + speed * 0.02;
    }
    end[i] = position;
}

extern "C" __global__ void cure(int steps, const float *start, float *end)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float position = start[i], speed = 0.0f;
    for (int step = 0; step < steps; ++step) {
        speed = speed * 0.99f - position * 0.02f;
        position = position + speed * 0.02f;
    }
    end[i] = position;
}
