// One level of a breadth-first search: a thread of the frontier marks its unvisited neighbours.
// Several threads may write the same neighbour, all with the same values.
extern "C" __global__ void bfs(const int* __restrict__ row_offsets, const int* __restrict__ columns,
                               unsigned char* __restrict__ frontier, unsigned char* __restrict__ next_frontier,
                               const unsigned char* __restrict__ visited, int* __restrict__ cost, int nodes) {
  int node = blockIdx.x * blockDim.x + threadIdx.x;
  if (node >= nodes || !frontier[node]) return;
  frontier[node] = 0;
  int next_cost = cost[node] + 1;
  for (int edge = row_offsets[node]; edge < row_offsets[node + 1]; ++edge) {
    int neighbour = columns[edge];
    if (!visited[neighbour]) {
      cost[neighbour] = next_cost;
      next_frontier[neighbour] = 1;
    }
  }
}
