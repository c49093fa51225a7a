// Two steps of text processing by map and reduce; a thread reads its record byte by byte.
constexpr unsigned kHashStart = 2166136261u;  // FNV-1a
constexpr unsigned kHashPrime = 16777619u;

__device__ unsigned hash_byte(unsigned hash, unsigned char byte) { return (hash ^ byte) * kHashPrime; }

// Counts the addresses in a log in a hash table with linear probing; 0 marks a free entry.
extern "C" __global__ void page_view_count(const unsigned char* __restrict__ log, const int* __restrict__ offsets,
                                           unsigned* __restrict__ table_keys, unsigned* __restrict__ table_counts,
                                           unsigned table_mask, int records) {
  int record = blockIdx.x * blockDim.x + threadIdx.x;
  if (record >= records) return;
  unsigned hash = kHashStart;
  int end = offsets[record + 1];
  for (int i = offsets[record]; i < end; ++i) hash = hash_byte(hash, log[i]);
  for (unsigned slot = hash & table_mask;; slot = (slot + 1) & table_mask) {
    unsigned found = table_keys[slot];
    if (found == 0) found = atomicCAS(table_keys + slot, 0u, hash);
    if (found == 0 || found == hash) {
      atomicAdd(table_counts + slot, 1u);
      return;
    }
  }
}

// Emits a pair (hash of the word, document) for each word of a document, at a place counted before.
extern "C" __global__ void inverted_index(const unsigned char* __restrict__ text, const int* __restrict__ offsets,
                                          const int* __restrict__ pair_offsets, unsigned* __restrict__ words,
                                          int* __restrict__ documents, int count) {
  int document = blockIdx.x * blockDim.x + threadIdx.x;
  if (document >= count) return;
  int pair = pair_offsets[document];
  int end = offsets[document + 1];
  unsigned hash = kHashStart;
  bool in_word = false;
  for (int i = offsets[document]; i < end; ++i) {
    unsigned char byte = text[i];
    if (byte != ' ') {
      hash = hash_byte(hash, byte);
      in_word = true;
    }
    if (in_word && (byte == ' ' || i + 1 == end)) {
      words[pair] = hash;
      documents[pair] = document;
      ++pair;
      hash = kHashStart;
      in_word = false;
    }
  }
}
