package models

import (
	"slices"
	"strconv"
)

// A part of a block is what a matrix belongs to.
type part uint8

const (
	ownPart    part = iota // the products into the block and out of it
	latentPart             // the expansion of a latent cache
	routerPart
	expertPart
	sharedPart
)

// A place is where a matrix stands in the model.
type place struct {
	layer int
	block *Block
	part  part
}

// copies is how many of a matrix there are at the place.
func (p place) copies() int64 {
	if p.part == expertPart {
		return int64(p.block.Experts.Count)
	}
	return 1
}

// store sets how the matrices of the layers are kept, each as pick says. Layers of one kind of which the
// matrices are kept differently become layers of several kinds.
func (m *Model) store(pick func(at place, l *Linear) (*Storage, error)) error {
	type variant struct {
		kind    int
		storage string
	}
	seen, numbers := make(map[variant]int), map[Storage]int{}
	var layers []Layer
	order := make([]int, 0, len(m.Order))
	for i, kind := range m.Order {
		l := m.Layers[kind].clone()
		var kept []byte
		for j := range l.Blocks {
			b := &l.Blocks[j]
			err := b.visit(func(p part, linear *Linear) error {
				s, err := pick(place{i, b, p}, linear)
				if err != nil {
					return err
				}
				linear.Stored = s
				if s != nil {
					if numbers[*s] == 0 {
						numbers[*s] = len(numbers) + 1
					}
					kept = strconv.AppendInt(kept, int64(numbers[*s]), 10)
				}
				kept = append(kept, ';')
				return nil
			})
			if err != nil {
				return err
			}
		}
		v := variant{kind, string(kept)}
		at, known := seen[v]
		if !known {
			at = len(layers)
			seen[v] = at
			l.Count = 0
			layers = append(layers, l)
		}
		layers[at].Count++
		order = append(order, at)
	}
	m.Layers, m.Order = layers, order
	return nil
}

// visit calls f for every matrix of the block until f fails.
func (b *Block) visit(f func(p part, l *Linear) error) error {
	each := func(p part, lists ...[]Linear) error {
		for _, ls := range lists {
			for i := range ls {
				if err := f(p, &ls[i]); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := each(ownPart, b.In, b.Out); err != nil {
		return err
	}
	if a := b.Attention; a != nil && a.Latent != nil {
		if err := f(latentPart, &a.Latent.Expand); err != nil {
			return err
		}
	}
	e := b.Experts
	if e == nil {
		return nil
	}
	if err := each(routerPart, e.Router); err != nil {
		return err
	}
	if err := each(expertPart, e.In, e.Out); err != nil || e.Shared == nil {
		return err
	}
	return each(sharedPart, e.Shared.In, e.Shared.Out)
}

// clone copies a layer down to its matrices.
func (l Layer) clone() Layer {
	l.Blocks = slices.Clone(l.Blocks)
	for i := range l.Blocks {
		b := &l.Blocks[i]
		b.In, b.Out = slices.Clone(b.In), slices.Clone(b.Out)
		if b.Attention != nil {
			a := *b.Attention
			if a.Latent != nil {
				a.Latent = new(*a.Latent)
			}
			b.Attention = &a
		}
		if b.Experts != nil {
			e := *b.Experts
			e.Router, e.In, e.Out = slices.Clone(e.Router), slices.Clone(e.In), slices.Clone(e.Out)
			if e.Shared != nil {
				s := *e.Shared
				s.In, s.Out = slices.Clone(s.In), slices.Clone(s.Out)
				e.Shared = &s
			}
			b.Experts = &e
		}
	}
	return l
}
