package models

import "slices"

// AlikeButWindows reports whether layers of two kinds differ in their names, in how many there are, and in the windows of their attention alone.
// Every case of a search asks, so that the fields are compared without reflection.
func (l *Layer) AlikeButWindows(o *Layer) bool {
	return l.Idle == o.Idle && slices.EqualFunc(l.Blocks, o.Blocks, alikeBlocks)
}

func alikeBlocks(a, b Block) bool {
	return a.Name == b.Name && a.Extra == b.Extra && a.Reused == b.Reused && a.Parallel == b.Parallel && a.Joined == b.Joined && a.Activation == b.Activation &&
		alikeAttention(a.Attention, b.Attention) && same(a.Scan, b.Scan) && alikeExperts(a.Experts, b.Experts) &&
		slices.Equal(a.Norms, b.Norms) && alikeLinears(a.In, b.In) && alikeLinears(a.Out, b.Out)
}

func alikeAttention(a, b *Attention) bool {
	if a == nil || b == nil {
		return a == b
	}
	rest := *b
	rest.Window, rest.Latent, rest.Indexer = a.Window, a.Latent, a.Indexer
	return *a == rest && same(a.Indexer, b.Indexer) && alikeLatent(a.Latent, b.Latent)
}

func alikeLatent(a, b *Latent) bool {
	if a == nil || b == nil {
		return a == b
	}
	rest := *b
	rest.Expand = a.Expand
	return *a == rest && alikeLinear(a.Expand, b.Expand)
}

func alikeExperts(a, b *Experts) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Count == b.Count && a.TopK == b.TopK && a.Idle == b.Idle && a.Activation == b.Activation &&
		alikeLinears(a.Router, b.Router) && alikeLinears(a.In, b.In) && alikeLinears(a.Out, b.Out) && alikeShared(a.Shared, b.Shared)
}

func alikeShared(a, b *Shared) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Activation == b.Activation && alikeLinears(a.In, b.In) && alikeLinears(a.Out, b.Out)
}

func alikeLinears(a, b []Linear) bool { return slices.EqualFunc(a, b, alikeLinear) }

func alikeLinear(a, b Linear) bool {
	stored := b.Stored
	b.Stored = a.Stored
	return a == b && same(a.Stored, stored)
}

// same reports whether both are nil, or equal.
func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }
