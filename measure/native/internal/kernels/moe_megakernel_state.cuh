// The MoE megakernel: all layers of a decode step of one sequence in one persistent kernel, with the
// embedding, the LM head and the choice of the token where it gets their weights. It has one block a
// multiprocessor, all resident at the same time. This file has its sizes, its arguments and the state
// of a block; the files that follow add, in this order, the exchange between blocks, the copies of
// weights, the GEMMs, attention, the experts, the token, and the loop over the layers.
//
// Blocks exchange results as NCCL's LL protocol does (ll_protocol.cuh): a value and an epoch are one
// store of 8 bytes, a packet, and the reader polls the packet until it has the epoch. One epoch is
// one layer. So operators need no fence, no counter and no kernel boundary between them, and the ring
// in shared memory never drains: the weights of a GEMM arrive while the results of the operator before
// it are still on their way.
//
// A packet is written once an epoch, and rewritten only after every block has read it. Every block
// computes some of gate_up (the grid is no larger) and sends it after it has read all that precedes
// it in the epoch. Whoever has the normed stream that ends an epoch has it from blocks that have read
// everything before; so a sender of the next epoch finds those packets read. The packets of gate_up
// are read by the blocks that compute down, whose results end the epoch.
//
// The host compiles the sizes in (STEP_SHAPE), because the kernel does every address computation once
// a layer and division by constants makes it short.

#ifdef STEP_SHAPE

#define STEP_DEPTH 256 // The columns of a stage.
#define STEP_ROW (STEP_DEPTH * 2)
#define STEP_STAGE (16 * STEP_ROW + 64)
#define STEP_STAGES 24  // The most stages of the ring.
#define STREAM_COPIES 4 // How many copies of the normed stream are sent.
#define SCORE_COPIES 16 // How many copies of the router's scores are sent.
#define STEP_VALUES (DEC_KEY_STAGES < 2 ? 1 : 2)                       // A warp has room for so many tiles of values.
#define STEP_TILES ((DEC_KEY_STAGES + STEP_VALUES) * DEC_TILE) // A warp's ring of keys and values has so many bytes.
#define STEP_CONTEXT (CONSUMERS - DEC_WARPS) // The first warp that attends; the warps before it compute more of qkv.
#define STEP_THREADS (CONSUMERS * WARP)
#define STEP_ALL (STEP_THREADS + PRODUCERS * WARP)
#ifdef SANITIZED // Kernels for racecheck are slow (common.cuh).
#define STEP_TIMEOUT 600000000000ull // A block waits so many nanoseconds for a packet.
#define BLOCK_ARRIVALS STEP_THREADS   // arrive_block counts so many arrivals.
#else
#define STEP_TIMEOUT 10000000000ull
#define BLOCK_ARRIVALS 1
#endif

// A StepLayer is an entry of the table of layers: addresses of the weights and of the cache.
struct StepLayer {
  const bf16 *qkv, *bias, *q_norm, *k_norm; // [rows][hidden]; a model without biases or q/k norms has null.
  const bf16 *out, *mid, *router;           // [hidden][width]; the router's norm; [experts][hidden]
  const bf16 *gate_up, *down, *norm;        // Expert weights lie as in moe_decode.cu; norm is the norm that follows the layer.
  const float *frequencies;
  bf16 *keys, *values; // [kv_heads][capacity][HEAD_DIM]
  u64 capacity;
};

// StepArgs are the sizes that the kernel is compiled for, and its arguments.
struct StepArgs {
  static constexpr int shape[] = {STEP_SHAPE};
  static constexpr int width = shape[0], hidden = shape[1], inner = shape[2], experts = shape[3], top = shape[4], normalized = shape[5];
  static constexpr int rows = shape[6], kv_heads = shape[7];           // rows counts the outputs of qkv_proj.
  static constexpr int stages = shape[8], prefetched = shape[9];       // The ring has stages; the prefetch buffer has prefetched.
  static constexpr int blocks = shape[10];                             // blocks counts the blocks of the grid.
  static constexpr int share = shape[11], parts = DEC_VALUES >> share; // A block merges 2^share values of a head's output; a head has so many parts.
  const StepLayer *table;
  int layers, vocab;
  float eps, scale; // eps of the norms; scale of attention's scores
  int *positions;   // how many tokens the cache has
  float *x;         // [hidden], the residual stream
  bf16 *h;          // [hidden], the residual stream times the norm's weights
  float *squares;   // [hidden/16], sums of squares of the residual stream
  u64 *packets;     // The packets lie in the order of the last fields of StepState.
  u32 *epochs;      // [blocks], the last epoch of each block
  // The kernel computes the embedding if embedding is not null, and the LM head if head is not.
  const bf16 *embedding, *norm; // [vocab][hidden]; the weights of the first layer's norm
  const bf16 *head;             // [vocab][hidden]
  float *logits;                // [vocab]
  int *next;                    // the token, and the host's copy of it in next_host
  int *next_host;
};

// StepState is the state of a block: its shared memory, its barriers, and the packets of all blocks.
struct StepState {
  const StepArgs &a;
  const StepLayer *table;
  u8 *ring;
  u64 *full, *empty;  // Each slot of the ring has two barriers: it is full, and it is empty again.
  u64 *prefetch_full; // Each prefetched stage has a barrier: it is full.
  u64 *consumed;      // This barrier says that all prefetched stages are used.
  u64 *attended;      // This barrier says that attention is done with the memory of the prefetched stages.
  u64 *decided;       // This barrier says that the experts are chosen.
  u8 *prefetch;
  bf16 *in;       // the inputs of a GEMM; qkv_proj has up to 8 copies, one for each warp
  bf16 *row;      // a row of the router's weights
  bf16 *norms;    // weights of the norms of queries and keys
  bf16 *norm_weights;    // [2][tiles][2][16], weights of both norms for the block's tiles of 16 outputs; layers alternate
  float *stream;  // the residual stream of the same outputs
  float *sums;    // sums of the stages of qkv_proj
  float *red;     // sums of the warps; two items alternate
  float *squares; // sums of squares for the norm
  u32 *keys;      // The scores of the experts as integers of the same order.
  int *chosen;    // [2][WARP], the chosen experts; layers alternate
  float *share, *score;
  float *scaling; // [2], the reciprocal norms before attention and before the experts
  HeadShared &sh;
  u64 *heads;         // Packets: [kv_heads][GROUP+2][HEAD_DIM], queries, key and value.
  u64 *partials;      // Packets: [kv_heads][receiving parts][sending parts][share], each followed by its maxima and sums.
  u64 *att;           // Packets: [width/2], the output of attention.
  u64 *ended, *after; // Packets: [STREAM_COPIES][hidden/2 + hidden/16], the normed stream and its squares after attention and after the experts.
  u64 *acts;          // Packets: [top][inner/2], the activations of the experts.
  u64 *scores;        // Packets: [SCORE_COPIES][experts], the scores of the router.
  u64 *bests;         // Packets: [blocks][2], the best score of each block's part of the vocabulary, and its token.

  // stages_of is how many stages k columns are; items_of_block and item deal items out to the blocks.
  __device__ __forceinline__ static int stages_of(int k) { return (k + STEP_DEPTH - 1) / STEP_DEPTH; }
  __device__ __forceinline__ int items_of_block(int items) const { return items > (int)blockIdx.x ? (items - 1 - (int)blockIdx.x) / a.blocks + 1 : 0; }
  __device__ __forceinline__ int item(int i) const { return blockIdx.x + i * a.blocks; }

  // Units of 8 rows of qkv go to the blocks in reverse order, because the last blocks have less of other GEMMs.
  __device__ __forceinline__ int back() const { return a.blocks - 1 - blockIdx.x; }
  __device__ __forceinline__ int units() const { return a.rows / 8 > back() ? (a.rows / 8 - 1 - back()) / a.blocks + 1 : 0; }
  __device__ __forceinline__ int each_unit() const { return (a.hidden + 2 * STEP_DEPTH - 1) / (2 * STEP_DEPTH); }

  // These count the stages that this block multiplies in a layer.
  __device__ __forceinline__ int qkv_stages() const { return units() * each_unit(); }
  __device__ __forceinline__ int prefetches() const { return min(a.prefetched, qkv_stages()); }
  __device__ __forceinline__ int o_stages() const { return items_of_block(a.hidden / 16) * stages_of(a.width); }
  __device__ __forceinline__ int gate_up_stages() const { return items_of_block(a.top * (a.inner / 8)) * stages_of(a.hidden); }
  __device__ __forceinline__ int down_stages() const { return items_of_block(a.hidden / 16) * a.top * stages_of(a.inner); }
  __device__ __forceinline__ int head_stages() const { return a.head ? (items_of_block(a.vocab / 8) + CONSUMERS - 1) / CONSUMERS * CONSUMERS * each_unit() : 0; }

  // unit_of is the unit of 8 rows of the LM head that a stage belongs to. A warp has all stages of its
  // unit. The last unit may not exist.
  __device__ __forceinline__ int unit_of(int stage) const { return stage / (CONSUMERS * each_unit()) * CONSUMERS + stage % CONSUMERS; }

  __device__ __forceinline__ float *other_buffer(float *r) const { return r == red ? red + CONSUMERS * RED_PITCH : red; }

  __device__ __forceinline__ int tiles() const { return (a.hidden / 16 + a.blocks - 1) / a.blocks; }
  __device__ __forceinline__ const bf16 *norm_weights_of(int l, int tile, int which) const { return norm_weights + (((l & 1) * tiles() + tile) * 2 + which) * 16; }

  // normed is how many packets a copy of the normed stream has; copy_of is the copy that this block reads.
  __device__ __forceinline__ int normed() const { return a.hidden / 2 + a.hidden / 16; }
  __device__ __forceinline__ const u64 *copy_of(const u64 *packets) const { return packets + blockIdx.x % STREAM_COPIES * normed(); }
};

#endif
