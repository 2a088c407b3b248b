package models

import (
	"cmp"
	"math"

	"llmprof/models/gguf"
	"llmprof/unit"
)

// A Storage is how a matrix is kept in a checkpoint: the bits of a value, the scales and
// zero points of its blocks, and the format that activations take for a product with it.
type Storage struct {
	Name   string      // name within its method: "Q4_K", "NVFP4", "int4 g128", "bf16"
	Format unit.Format // the number format of its values, or the nearest
	Act    unit.Format // NoFormat where activations keep the 16 bits of the residual stream
	Bits   float64     // bits of a value, with the block scales of a GGUF type

	BlockIn, BlockOut int     // values of a block of scales along inputs and outputs; 0 for all of them
	Scale             float64 // bytes of the scales and zero points of a block
	PerInput          float64 // further bytes of each input: the order of the groups of GPTQ
	Fixed             float64 // further bytes of the matrix: its global scale, the scale of its activations
}

// Bytes is the memory of a matrix of out rows of in values.
func (s *Storage) Bytes(in, out float64) unit.Bytes {
	b := in*out*s.Bits/8 + in*s.PerInput + s.Fixed
	if s.Scale > 0 {
		b += blocks(in, s.BlockIn) * blocks(out, s.BlockOut) * s.Scale
	}
	return unit.Bytes(b)
}

// blocks is how many blocks of size values n values make.
func blocks(n float64, size int) float64 {
	if size == 0 {
		return 1
	}
	return math.Ceil(n / float64(size))
}

// plainStorage stores a matrix in a format without scales.
func plainStorage(f unit.Format) *Storage {
	return &Storage{Name: f.String(), Format: f, Bits: f.Bits()}
}

// ggmlStorage is how llama.cpp keeps a tensor of a type.
func ggmlStorage(t *gguf.Type) *Storage {
	return &Storage{Name: t.Name, Format: t.Format, Bits: t.Bits()}
}

// StoredBytes is the memory of all weights as the checkpoint keeps them. It is 0 where the
// format of a matrix is not known.
func (m *Model) StoredBytes() unit.Bytes {
	total := m.StoredEmbeddingBytes() + m.StoredHeadBytes()
	for l, b := range m.Blocks() {
		total += m.storedBlockBytes(b).Times(float64(l.Count))
	}
	return total
}

// vectors is the format of norms, biases and further parameters that are no matrices.
func (m *Model) vectors() *Storage {
	return plainStorage(cmp.Or(m.Stored.Vectors, m.Stored.Plain))
}

// StoredEmbeddingBytes is the memory of the tables that tokens and positions are looked up in.
func (m *Model) StoredEmbeddingBytes() unit.Bytes {
	e, plain := &m.Embedding, plainStorage(m.Stored.Plain)
	b := m.storedTableBytes()
	b += plain.Bytes(float64(m.Hidden), float64(e.Positions)) + plain.Bytes(float64(e.Extra-e.Hashed), 1) + e.HashedBytes()
	for i := range e.Project {
		b += m.storedLinearBytes(&e.Project[i])
	}
	return b + m.vectors().Bytes(float64(normParams(e.Norms)), 1)
}

// storedTableBytes is the memory of the table of tokens.
func (m *Model) storedTableBytes() unit.Bytes {
	table := m.Table()
	return m.storedLinearBytes(&table)
}

// StoredHeadBytes is the memory of the LM head, if it is not the embedding, and of the last norms.
func (m *Model) StoredHeadBytes() unit.Bytes {
	b := m.vectors().Bytes(float64(normParams(m.FinalNorms)), 1)
	switch {
	case !m.TiedHead:
		b += m.storedLinearBytes(&m.Head)
	case m.Head.Bias:
		b += m.vectors().Bytes(float64(m.Head.Out), 1)
	}
	return b
}

func (m *Model) storedBlockBytes(b *Block) unit.Bytes {
	if b.Reused {
		return 0
	}
	total := m.vectors().Bytes(float64(b.Extra+normParams(b.Norms)), 1)
	b.each(func(l Linear, copies int, _ float64) {
		total += m.storedLinearBytes(&l).Times(float64(copies))
	})
	return total
}

func (m *Model) storedLinearBytes(l *Linear) unit.Bytes {
	times := float64(max(l.Times, 1))
	b := cmp.Or(l.Stored, plainStorage(m.Stored.Plain)).Bytes(float64(l.In), float64(l.Out))
	if l.Bias {
		b += m.vectors().Bytes(float64(l.Out), 1)
	}
	return b.Times(times)
}
