// How the MoE megakernel copies weights: four warps fill a ring of stages in shared memory, every
// fourth stage each. A stage is 16 rows of 256 columns or, of qkv and the LM head, 8 rows of 512,
// which deals their rows out more evenly. The order within a layer is qkv, o, gate and up (8 outputs
// of each), down (16 outputs of all experts); the LM head comes last. The first stages of the next
// layer's qkv are prefetched to a buffer of their own while the experts are chosen, and the rest of it
// to the L2. Few stages of o are in flight at a time, because packets of other blocks would queue
// behind them.

#ifdef STEP_SHAPE

// place_of is the offset of a row of so many bytes in a stage. Odd rows lie behind the even ones and are
// shifted by half of the banks, so that 16-byte loads of two neighbouring rows have no bank conflicts.
__device__ __forceinline__ int place_of(int row, int bytes = STEP_ROW) { return (row & 1) * (8 * STEP_ROW + 64) + (row >> 1) * bytes; }

// StepCopy adds the copying warps.
struct StepCopy : StepState {
  // copy copies one stage: 8 rows that begin at `from`, or 16 rows whose second eight begin at `second`.
  // left is how many columns remain.
  __device__ __forceinline__ void copy(u32 to, u64 *full, const bf16 *from, const bf16 *second, int k, int left, u64 policy) const {
    int lane = threadIdx.x % WARP, rows = second ? 16 : 8, row = second ? STEP_ROW : 2 * STEP_ROW, columns = min(left, row / 2);
    if (bulk_copies()) {
      const bf16 *mine = (lane < 8 ? from : second) + (u64)((u32)(lane % 8) * (u32)k);
      int bytes = lane < rows ? columns * 2 : 0;
      if (WARP_ARRIVALS > 1) barrier_expect(full, bytes);
      else if (lane == 0) barrier_expect(full, rows * columns * 2);
      __syncwarp();
      if (bytes > 0) copy_bulk(to + place_of(lane, row), mine, bytes, full, policy);
      return;
    }
#pragma unroll 1
    for (int half = 0; half < 2; half++) {
      const bf16 *mine = (second && half ? second : from + half * (second ? 0 : STEP_DEPTH)) + lane * 8;
      if (lane * 8 + (second ? 0 : half * STEP_DEPTH) < columns) {
#pragma unroll
        for (int j = 0; j < 8; j++) copy16_once(to + half * (second ? 4 : 1) * STEP_ROW + lane * 16 + place_of(j, row), mine + (u64)((u32)j * (u32)k), policy);
      }
    }
    barrier_arrive_copied(full);
  }

  // A Kind says which weights a stage has, in the order of copying. Prefetched stages are copied in the
  // layer before theirs, after those of o_proj.
  enum Kind { HEAD, PREFETCH, QKV, O_PROJ, GATE_UP, DOWN };

  // rows finds where the rows of a stage begin, where their second eight begin, and their first column.
  __device__ __forceinline__ const bf16 *rows(const StepLayer &w, const int *chosen, int kind, int stage, const bf16 *&second, int &col) const {
    int each = kind <= QKV ? each_unit() : stages_of(kind == O_PROJ ? a.width : kind == GATE_UP ? a.hidden : a.inner), part = stage / each;
    col = (stage - part * each) * STEP_DEPTH;
    const bf16 *from;
    second = nullptr;
    if (kind == HEAD) {
      col = stage / CONSUMERS % each * 2 * STEP_DEPTH;
      from = a.head + (u64)item(unit_of(stage)) * 8 * a.hidden + col;
    } else if (kind <= QKV) {
      col *= 2;
      from = w.qkv + (u64)(back() + part * a.blocks) * 8 * a.hidden + col;
    } else if (kind == O_PROJ) {
      from = w.out + (u64)item(part) * 16 * a.width + col;
      second = from + 8 * a.width;
    } else if (kind == GATE_UP) {
      int tile = item(part), e = tile / (a.inner / 8);
      from = w.gate_up + ((u64)chosen[e] * 2 * a.inner + (tile - e * (a.inner / 8)) * 8) * a.hidden + col;
      second = from + (u64)a.inner * a.hidden;
    } else {
      int i = part / a.top;
      from = w.down + ((u64)chosen[part - i * a.top] * a.hidden + item(i) * 16) * a.inner + col;
      second = from + 8 * a.inner;
    }
    return from;
  }

  // produce is the loop of a copying warp, which fills every fourth stage.
  __device__ void produce() const {
    u64 policy = evict_first();
    int warp = threadIdx.x / WARP - CONSUMERS, prefetched = prefetches();
    int j = warp, to = 0; // j and to count stages of the ring.
    let_next_start();
#pragma unroll 1
    for (int n = -1; n < a.layers * 5 + (a.head ? 1 : 0); n++) {
      int l = n < 0 ? -1 : n / 5, at = n - l * 5, kind = n < 0 || at == 2 ? PREFETCH : l == a.layers ? HEAD : at < 2 ? QKV + at : at + 1;
      const StepLayer &w = table[min(kind == PREFETCH ? l + 1 : l, a.layers - 1)];
      if (kind == PREFETCH && n >= 0 && l + 1 < a.layers) barrier_wait(attended, l & 1);
      if (kind == GATE_UP) arrive_warp(decided), barrier_wait(decided, l & 1);
      int from = to, k = kind == O_PROJ ? a.width : kind == DOWN ? a.inner : a.hidden;
      int most = kind == O_PROJ ? PRODUCERS : 0; // how many stages may be in flight; 0 is as many as the ring has room for
      to += kind == PREFETCH ? 0 : kind == HEAD ? head_stages() : kind == QKV ? qkv_stages() - prefetched : kind == O_PROJ ? o_stages() : kind == GATE_UP ? gate_up_stages() : down_stages();
#pragma unroll 1
      for (int i = kind == PREFETCH ? warp : j; i < (kind != PREFETCH ? to : l + 1 < a.layers ? prefetched : 0); i += PRODUCERS) {
        const bf16 *second, *first;
        int col, stage = kind == PREFETCH ? i : kind == QKV ? i - from + prefetched : i - from;
        first = rows(w, chosen + (l & 1) * WARP, kind, stage, second, col);
        u64 *filled = prefetch_full + i;
        u32 there = shared_address(prefetch) + i * STEP_STAGE;
        if (kind != PREFETCH) {
          int slot = i % a.stages, before = i - most; // Only the warp's own stages are waited for, because others may be more than a round ahead.
          if (most > 0 && before >= 0) barrier_wait(full + before % a.stages, before / a.stages & 1);
          barrier_wait(empty + slot, i / a.stages & 1 ^ 1);
          filled = full + slot, there = shared_address(ring) + slot * STEP_STAGE;
          j = i + PRODUCERS;
        }
        int left = kind == HEAD && unit_of(stage) >= items_of_block(a.vocab / 8) ? 0 : k - col;
        copy(there, filled, first, second, k, left, policy);
      }
      if (kind == PREFETCH && l + 1 < a.layers) prefetch_l2(w);
    }
    wait_for_previous();
  }

  // prefetch_l2 prefetches to the L2 what follows the prefetched stages of a layer's qkv, as much as the
  // ring has room for. The memory is otherwise idle while the experts are chosen.
  __device__ __forceinline__ void prefetch_l2(const StepLayer &w) const {
    int lane = threadIdx.x % WARP, to = bulk_copies() ? min(qkv_stages(), prefetches() + a.stages) : 0;
#pragma unroll 1
    for (int i = prefetches() + (int)threadIdx.x / WARP - CONSUMERS; i < to; i += PRODUCERS) {
      const bf16 *second;
      int col;
      const bf16 *from = rows(w, chosen, PREFETCH, i, second, col) + lane % 8 * a.hidden;
      if (lane < 8) call_ahead(from, min(a.hidden - col, 2 * STEP_DEPTH) * 2);
    }
  }
};

#endif
