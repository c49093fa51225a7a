// Global alignment of pairs of sequences: the tiles on one diagonal of each pair's score matrix.
// A block of kTile threads sweeps the antidiagonals of its tile in shared memory.
constexpr int kTile = 32;
constexpr int kLetters = 24;

extern "C" __global__ void needleman_wunsch(const unsigned char* __restrict__ first,
                                            const unsigned char* __restrict__ second,
                                            const int* __restrict__ similarity, int* __restrict__ scores, int length,
                                            int diagonal, int penalty) {
  __shared__ int tile[kTile + 1][kTile + 1];
  __shared__ int similar[kTile][kTile];
  int t = threadIdx.x;
  int pair = blockIdx.y;
  int tiles = length / kTile;
  int first_tile = max(0, diagonal - tiles + 1);
  int tile_x = first_tile + blockIdx.x;
  int tile_y = diagonal - tile_x;
  int stride = length + 1;
  int* corner = scores + (long long)pair * stride * stride + (long long)tile_y * kTile * stride + tile_x * kTile;
  const unsigned char* across = first + (long long)pair * length + tile_x * kTile;
  const unsigned char* down = second + (long long)pair * length + tile_y * kTile;

  tile[0][t + 1] = corner[t + 1];
  tile[t + 1][0] = corner[(long long)(t + 1) * stride];
  if (t == 0) tile[0][0] = corner[0];
  for (int y = 0; y < kTile; ++y) similar[y][t] = similarity[down[y] * kLetters + across[t]];
  __syncthreads();

  for (int antidiagonal = 0; antidiagonal < 2 * kTile - 1; ++antidiagonal) {
    int y = antidiagonal - t;
    if (y >= 0 && y < kTile) {
      int match = tile[y][t] + similar[y][t];
      int gap = max(tile[y][t + 1], tile[y + 1][t]) - penalty;
      tile[y + 1][t + 1] = max(match, gap);
    }
    __syncthreads();
  }
  for (int y = 0; y < kTile; ++y) corner[(long long)(y + 1) * stride + t + 1] = tile[y + 1][t + 1];
}
