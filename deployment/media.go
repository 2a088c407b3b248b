package deployment

import (
	"fmt"
	"strconv"
	"strings"

	"llmprof/analytic/operator"
	"llmprof/models"
	"llmprof/unit"
)

// Images are those of each prompt, all of one size.
type Images struct{ Count, Width, Height int }

const (
	mostImages = 1000
	mostPixels = 1 << 15 // pixels of a side
	usualSide  = 1024
)

// UnmarshalText reads "2" or "2@1280x720".
func (i *Images) UnmarshalText(text []byte) error {
	count, size, sized := strings.Cut(string(text), "@")
	width, height, by := strings.Cut(strings.ToLower(size), "x")
	if !sized {
		width, height, by = strconv.Itoa(usualSide), strconv.Itoa(usualSide), true
	}
	var err [3]error
	i.Count, err[0] = strconv.Atoi(count)
	i.Width, err[1] = strconv.Atoi(width)
	i.Height, err[2] = strconv.Atoi(height)
	if !by || err != [3]error{} || min(i.Count, i.Width, i.Height) < 1 || i.Count > mostImages || max(i.Width, i.Height) > mostPixels {
		return fmt.Errorf("want a number of images, up to %d, and their pixels if they are not %dx%d, as 2@1280x720", mostImages, usualSide,
			usualSide)
	}
	return nil
}

// String is what UnmarshalText reads.
func (i Images) String() string { return fmt.Sprintf("%d@%dx%d", i.Count, i.Width, i.Height) }

// Seconds are the length of a recording.
type Seconds float64

const mostSeconds = 24 * 3600

// UnmarshalText reads a number of seconds.
func (s *Seconds) UnmarshalText(text []byte) error {
	v, err := strconv.ParseFloat(strings.TrimSuffix(string(text), "s"), 64)
	if err != nil || !(v > 0 && v <= mostSeconds) {
		return fmt.Errorf("want seconds above 0, up to %d", mostSeconds)
	}
	*s = Seconds(v)
	return nil
}

// Media are the images and the audio of each prompt.
type Media struct {
	Images *Images  `json:"images" group:"Media" help:"<images> in each prompt, as 2 or 2@1280x720"`
	Audio  *Seconds `json:"audio" help:"<seconds> of audio in each prompt"`
}

// Of is what a model makes of them: the towers that run for each request, and the tokens that a prompt has of them.
func (x Media) Of(m *models.Model) (encoders []operator.Encoder, tokens int, err error) {
	add := func(name string, one models.Media, count int) {
		one.Tokens, one.Rows, one.FLOPs = one.Tokens*count, one.Rows*float64(count), one.FLOPs*float64(count)
		encoders = append(encoders, operator.Encoder{Media: one, Name: name})
		tokens += one.Tokens
	}
	if i := x.Images; i != nil {
		one, err := m.Image(i.Width, i.Height)
		if err != nil {
			return nil, 0, unit.Errorf("{images}: %w", err)
		}
		add("vision_encoder", one, i.Count)
	}
	if x.Audio != nil {
		one, err := m.Audio(float64(*x.Audio))
		if err != nil {
			return nil, 0, unit.Errorf("{audio}: %w", err)
		}
		add("audio_encoder", one, 1)
	}
	for i := range encoders { // Which of the parameters are of which tower is not known apart.
		encoders[i].Params = float64(m.EncoderParams) / float64(len(encoders))
	}
	return encoders, tokens, nil
}

// Spread sets over how many tokens of a prompt the work of the encoders is spread.
func Spread(encoders []operator.Encoder, prompt float64) {
	for i := range encoders {
		encoders[i].Prompt = prompt
	}
}

// encode adds the images and the audio of a request to the case, and says what its prompts have of them.
func (d *Deployment) encode() (err error) {
	if d.Encoders, d.MediaTokens, err = d.Request.Of(d.Model); err != nil || d.Encoders == nil {
		return err
	}
	if d.runs.Profile().TextAlone {
		return unit.Errorf("{engine}: %s runs no towers: leave out images and audio", d.runs.Profile().Name)
	}
	d.Model = d.Model.WithMedia()
	text := d.Workload.PromptLen
	d.Workload.PromptLen += d.MediaTokens
	if w := &d.Workload; w.Longest > 0 && w.Longest < w.Context() {
		return unit.Errorf("{max_model_len} %d: prompt and answer are %d tokens with those of images and audio", w.Longest, w.Context())
	}
	prompt := float64(d.Workload.PromptLen - d.Workload.CachedPrefix)
	if p := d.Request.Prompts; p != nil {
		shifted := p.Plus(d.MediaTokens)
		d.prompts, prompt = &shifted, shifted.MeanLength()*(1-or(d.Request.HitRate, 0))
	}
	Spread(d.Encoders, prompt)
	for _, e := range d.Encoders {
		d.known = append(d.known, unit.Warn("encoder", "each prompt has %d tokens beside %d of text: the %s runs on %.0f rows, %v",
			e.Tokens, text, strings.ReplaceAll(e.Name, "_", " "), e.Rows, unit.FLOPs(e.FLOPs)))
	}
	return nil
}
