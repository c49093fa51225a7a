// c = a b^T on tensor cores: a (rows x inner) and b (columns x inner) in half precision, given as their
// bits, c in single precision. A block of four warps computes 64 x 64 of c; the next 64 x 32 of a and b
// are copied to shared memory while the current ones are multiplied. All sizes are multiples of those.
// Needs sm_80.
constexpr int kTile = 64;
constexpr int kStep = 32;
constexpr int kStride = kStep + 8;  // padded against bank conflicts, rows still aligned to 16 bytes

typedef unsigned short Half;

__device__ void copy_tile(Half (*tile)[kStride], const Half* source, int inner) {
  for (int chunk = threadIdx.x; chunk < kTile * kStep / 8; chunk += blockDim.x) {
    int row = chunk / (kStep / 8), column = chunk % (kStep / 8) * 8;
    unsigned target = (unsigned)__cvta_generic_to_shared(&tile[row][column]);
    const Half* place = source + (long long)row * inner + column;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(target), "l"(place));
  }
}

__device__ unsigned two_halves(const Half* place) { return *reinterpret_cast<const unsigned*>(place); }

extern "C" __global__ void matmul_tensor(const Half* __restrict__ a, const Half* __restrict__ b,
                                         float* __restrict__ c, int columns, int inner) {
  __shared__ __align__(16) Half a_tile[2][kTile][kStride];
  __shared__ __align__(16) Half b_tile[2][kTile][kStride];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int group = lane / 4, member = lane % 4;
  int warp_row = warp / 2 * 32, warp_column = warp % 2 * 32;
  a += (long long)blockIdx.y * kTile * inner;
  b += (long long)blockIdx.x * kTile * inner;
  float sums[2][4][4] = {};

  copy_tile(a_tile[0], a, inner);
  copy_tile(b_tile[0], b, inner);
  asm volatile("cp.async.commit_group;");
  for (int first = 0, buffer = 0; first < inner; first += kStep, buffer ^= 1) {
    if (first + kStep < inner) {
      copy_tile(a_tile[buffer ^ 1], a + first + kStep, inner);
      copy_tile(b_tile[buffer ^ 1], b + first + kStep, inner);
    }
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 1;");
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kStep; k += 16) {
      unsigned a_part[2][4], b_part[4][2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const Half* place = &a_tile[buffer][warp_row + 16 * i + group][k + 2 * member];
        a_part[i][0] = two_halves(place);
        a_part[i][1] = two_halves(place + 8 * kStride);
        a_part[i][2] = two_halves(place + 8);
        a_part[i][3] = two_halves(place + 8 * kStride + 8);
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const Half* place = &b_tile[buffer][warp_column + 8 * j + group][k + 2 * member];
        b_part[j][0] = two_halves(place);
        b_part[j][1] = two_halves(place + 8);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          asm volatile(
              "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
              "{%0, %1, %2, %3};"
              : "+f"(sums[i][j][0]), "+f"(sums[i][j][1]), "+f"(sums[i][j][2]), "+f"(sums[i][j][3])
              : "r"(a_part[i][0]), "r"(a_part[i][1]), "r"(a_part[i][2]), "r"(a_part[i][3]), "r"(b_part[j][0]),
                "r"(b_part[j][1]));
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      long long row = (long long)blockIdx.y * kTile + warp_row + 16 * i + group;
      float* place = c + row * columns + blockIdx.x * kTile + warp_column + 8 * j + 2 * member;
      *reinterpret_cast<float2*>(place) = make_float2(sums[i][j][0], sums[i][j][1]);
      *reinterpret_cast<float2*>(place + 8LL * columns) = make_float2(sums[i][j][2], sums[i][j][3]);
    }
}
