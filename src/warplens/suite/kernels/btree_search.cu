// Point queries in a B+-tree: one block per query, one thread per key of a node. Inner nodes and
// leaves share their arrays; a child of an inner node is a node, a child of a leaf is a record.
constexpr int kOrder = 128;

extern "C" __global__ void btree_search(const int* __restrict__ keys, const int* __restrict__ children,
                                        const int* __restrict__ queries, int* __restrict__ records, int levels) {
  __shared__ int node;
  __shared__ int next;
  int slot = threadIdx.x;
  int query = queries[blockIdx.x];
  if (slot == 0) {
    node = 0;
    next = -1;
  }
  __syncthreads();
  for (int level = 1; level < levels; ++level) {
    const int* node_keys = keys + (long long)node * kOrder;
    bool mine = node_keys[slot] <= query && (slot == kOrder - 1 || query < node_keys[slot + 1]);
    if (mine) next = children[(long long)node * kOrder + slot];
    __syncthreads();
    if (next < 0) return;  // before the first key of the tree
    __syncthreads();
    if (slot == 0) {
      node = next;
      next = -1;
    }
    __syncthreads();
  }
  long long entry = (long long)node * kOrder + slot;
  if (keys[entry] == query) records[blockIdx.x] = children[entry];
}
