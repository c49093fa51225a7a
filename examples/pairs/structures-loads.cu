// Distances of particles from the origin. The fault: an array of structures; x, y and z are 12 of the 64 bytes
// between one lane's particle and the next. The cure: a structure of arrays.
struct Particle {
    float x, y, z, mass;
    float velocity[3], charge;
    float force[3], radius;
    float spin[3], kind;
};

extern "C" __global__ void fault(int count, const Particle *particles, float *distance)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    const Particle *p = &particles[i];
    distance[i] = sqrtf(p->x * p->x + p->y * p->y + p->z * p->z);
}

extern "C" __global__ void cure(int count, const float *particles, float *distance)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float x = particles[i], y = particles[count + i], z = particles[2 * count + i];
    distance[i] = sqrtf(x * x + y * y + z * z);
}
