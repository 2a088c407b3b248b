package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
)

// A Media is what an encoder makes of an image, or of a recording.
type Media struct {
	Tokens int     // tokens of the decoder, with those that the processor puts between rows and tiles
	Rows   float64 // patches or frames that the encoder computes on
	FLOPs  float64 // FLOPs of the encoder's matrix products, attention included
	Layers int     // layers of the encoder
	Width  int     // width of its stream
}

// A mediaRule says how the processor of a family cuts images or sound up, and what its encoder computes. All but Rule are formulas. The
// grid of Rule gives them columns and rows of the decoder's tokens (gw, gh), or of tiles; cut is 1 where there are several tiles. Those of
// audio have its length in frames of 10 ms (frames).
type mediaRule struct {
	Rule         string // "" where every image has the same size
	Unit         string // pixels of a side of a cell of the grid
	Least, Most  string // bounds of the grid: pixels, tokens or tiles, as the rule has them
	Tokens, Rows string
	Span         string // rows that each row sees; all where it is empty
	Layers, H    string // layers, and the width of their attention
	Row, Token   string // matrix elements that each row is multiplied by, and each token
}

// media is what a model knows of its images or its audio.
type media struct {
	mediaRule
	fields map[string]any
}

// mediaOf finds the rules of a multimodal config by the model_type of the whole.
func mediaOf(wrapper string, whole map[string]any) map[string]media {
	all := make(map[string]media)
	for kind, rule := range fieldTable().Media[wrapper] {
		field := map[string]string{"image": "vision_config", "audio": "audio_config"}[kind]
		if encoder, ok := whole[field].(map[string]any); ok && len(encoder) > 0 {
			fields := maps.Clone(whole)
			maps.Copy(fields, encoder)
			all[kind] = media{rule, fields}
		}
	}
	return all
}

// Image is what an image of so many pixels becomes.
func (m *Model) Image(width, height int) (Media, error) {
	i, ok := m.media["image"]
	if !ok {
		return Media{}, m.noMedia("vision tower", "images")
	}
	gw, gh, err := i.grid(float64(width), float64(height))
	if err != nil {
		return Media{}, err
	}
	cut := 0
	if gw*gh > 1 {
		cut = 1
	}
	return i.with(map[string]int{"gw": gw, "gh": gh, "cut": cut})
}

// Audio is what a recording of so many seconds becomes.
func (m *Model) Audio(seconds float64) (Media, error) {
	s, ok := m.media["audio"]
	if !ok {
		return Media{}, m.noMedia("audio tower", "audio")
	}
	return s.with(map[string]int{"frames": int(math.Ceil(seconds * 100))})
}

func (m *Model) noMedia(encoder, what string) error {
	return fmt.Errorf("%s: how many tokens its processor makes of %s is not known, or its config has no %s; add their tokens to the prompt",
		m.Name, what, encoder)
}

// with evaluates the formulas.
func (x *media) with(sizes map[string]int) (r Media, err error) {
	fields := maps.Clone(x.fields)
	for name, n := range sizes {
		fields[name] = asNumber(n)
	}
	number := func(text string) float64 {
		if text == "" {
			return 0
		}
		n, failed := evaluate(text, fields)
		err = errors.Join(err, failed)
		return float64(n)
	}
	r.Rows, r.Tokens = number(x.Rows), int(number(x.Tokens))
	span := r.Rows
	if fields["rows"] = json.Number(fmt.Sprintf("%.0f", r.Rows)); x.Span != "" {
		span = number(x.Span)
	}
	r.Layers, r.Width = int(number(x.Layers)), int(number(x.H))
	r.FLOPs = 2*r.Rows*number(x.Row) + 2*float64(r.Tokens)*number(x.Token) + 4*float64(r.Layers)*float64(r.Width)*r.Rows*span
	if err == nil && (r.Tokens < 1 || r.Layers < 1 || r.Width < 1) {
		err = fmt.Errorf("a tower of %d layers of %d values makes %d tokens", r.Layers, r.Width, r.Tokens)
	}
	return r, err
}

// grid is the columns and rows that an image is cut into.
func (x *media) grid(w, h float64) (gw, gh int, err error) {
	if x.Rule == "" {
		return 1, 1, nil
	}
	var bounds [3]float64
	for i, text := range []string{x.Unit, x.Least, x.Most} {
		if text == "" {
			continue
		}
		n, err := evaluate(text, x.fields)
		if err != nil {
			return 0, 0, err
		}
		bounds[i] = float64(n)
	}
	unit, least, most := bounds[0], bounds[1], bounds[2]
	if unit < 1 || most < 1 {
		return 0, 0, fmt.Errorf("an image has cells of %g pixels, %g at most", unit, most)
	}
	switch x.Rule {
	case "area":
		w, h = area(w, h, unit, least, most)
	case "side": // Pixtral: no side is longer, and a part of a cell is one
		shrink := max(w/most, h/most, 1)
		w, h = math.Ceil(math.Floor(w/shrink)/unit), math.Ceil(math.Floor(h/shrink)/unit)
	case "fill": // Gemma 4: as many tokens as there may be
		scale := math.Sqrt(most * unit * unit / (w * h))
		w, h = math.Floor(scale*w/unit), math.Floor(scale*h/unit)
	case "up": // GLM-5.3: a part of a cell is one, and between two numbers of cells
		w, h = up(w, h, unit, least, most)
	case "patches": // Kimi: an image is shrunk to a number of patches, of which a cell has 2 by 2
		patch := unit / 2
		shrink := min(1, math.Sqrt(most/(max(1, math.Floor(w/patch))*max(1, math.Floor(h/patch)))), least*patch/w, least*patch/h)
		w, h = math.Ceil(math.Floor(w*shrink)/unit), math.Ceil(math.Floor(h*shrink)/unit)
	case "ratio":
		w, h = nearestRatio(w, h, unit, most)
	case "canvas":
		w, h = smallestCanvas(w, h, unit, most)
	default:
		return 0, 0, fmt.Errorf("no rule %s of images is known", quote(x.Rule))
	}
	return int(max(w, 1)), int(max(h, 1)), nil
}

// area resizes to cells, so that all of them are between two numbers of pixels (smart_resize of Qwen2-VL).
func area(w, h, unit, least, most float64) (gw, gh float64) {
	gw, gh = math.RoundToEven(w/unit), math.RoundToEven(h/unit)
	switch pixels := gw * gh * unit * unit; {
	case pixels > most:
		shrink := math.Sqrt(w * h / most)
		return max(1, math.Floor(w/shrink/unit)), max(1, math.Floor(h/shrink/unit))
	case pixels < least:
		grow := math.Sqrt(least / (w * h))
		return math.Ceil(w * grow / unit), math.Ceil(h * grow / unit)
	}
	return gw, gh
}

// up cuts an image into whole cells, of which the last of a row or a column may be a part. An image is resized where they are not between
// two numbers.
func up(w, h, unit, least, most float64) (gw, gh float64) {
	gw, gh = math.Ceil(w/unit), math.Ceil(h/unit)
	if gw*gh < least {
		grow := math.Sqrt(least * unit * unit / (w * h))
		gw, gh = math.Ceil(math.Ceil(w*grow)/unit), math.Ceil(math.Ceil(h*grow)/unit)
	}
	for high := h - 1; gw*gh > most && high >= 1; high-- {
		gw, gh = math.Ceil(max(1, math.Floor(w*high/h))/unit), math.Ceil(high/unit)
	}
	return gw, gh
}

// tilings are the ways to arrange at most so many tiles, the fewest first.
func tilings(most float64) (all [][2]float64) {
	for n := 1.0; n <= most; n++ {
		for w := 1.0; w <= n; w++ {
			if math.Mod(n, w) == 0 {
				all = append(all, [2]float64{w, n / w})
			}
		}
	}
	return all
}

// nearestRatio takes the tiles of the nearest ratio of sides; of several the most that cover less than twice the image (InternVL).
func nearestRatio(w, h, unit, most float64) (gw, gh float64) {
	best := math.Inf(1)
	for _, t := range tilings(most) {
		off := math.Abs(w/h - t[0]/t[1])
		if off < best || off == best && w*h > unit*unit*t[0]*t[1]/2 {
			best, gw, gh = off, t[0], t[1]
		}
	}
	return gw, gh
}

// smallestCanvas takes the tiles that enlarge an image the least, or shrink it the least where all do, and of these the fewest (Llama 4).
func smallestCanvas(w, h, unit, most float64) (gw, gh float64) {
	best := 0.0
	for _, t := range tilings(most) {
		scale := min(t[0]*unit/w, t[1]*unit/h)
		if best == 0 || scale >= 1 && (best < 1 || scale < best) || scale < 1 && scale > best {
			best, gw, gh = scale, t[0], t[1]
		}
	}
	return gw, gh
}
