package monopath

import (
	"testing"

	"google.golang.org/protobuf/proto"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

func kimiProcessor(config *monopathv1.KimiConfig) *monopathv1.ProcessorConfig {
	return &monopathv1.ProcessorConfig{Source: &monopathv1.ProcessorConfig_Kimi{Kimi: config}}
}

func internVlProcessor(config *monopathv1.InternVlConfig) *monopathv1.ProcessorConfig {
	return &monopathv1.ProcessorConfig{Source: &monopathv1.ProcessorConfig_InternVl{InternVl: config}}
}

func fixedSizeProcessor(config *monopathv1.FixedSizeConfig) *monopathv1.ProcessorConfig {
	return &monopathv1.ProcessorConfig{Source: &monopathv1.ProcessorConfig_FixedSize{FixedSize: config}}
}

func TestTokensOfFinishedFeaturesFollowFromTheFamilyOfTheStream(t *testing.T) {
	two := proto.Uint32(2)
	patches := LocalFeatures{GridThw: &monopathv1.GridThw{T: 1, H: 6, W: 4}, Shape: []int64{24, 3, 14, 14}}
	tiles := LocalFeatures{Shape: []int64{7, 3, 448, 448}}
	image := LocalFeatures{Shape: []int64{1, 3, 28, 42}}
	for name, one := range map[string]struct {
		features LocalFeatures
		config   *monopathv1.ProcessorConfig
		want     uint32
	}{
		"Kimi": {patches, kimiProcessor(&monopathv1.KimiConfig{MergeKernelSize: two}), 6},
		"Kimi with a fixed count": {patches, kimiProcessor(&monopathv1.KimiConfig{
			MergeKernelSize: two, FixedOutputTokens: proto.Uint32(5),
		}), 5},
		"Kimi-VL": {patches, &monopathv1.ProcessorConfig{Source: &monopathv1.ProcessorConfig_KimiVl{
			KimiVl: &monopathv1.KimiVlConfig{MergeKernelSize: two},
		}}, 6},
		"Qwen-VL": {patches, &monopathv1.ProcessorConfig{Source: &monopathv1.ProcessorConfig_QwenVl{
			QwenVl: &monopathv1.QwenVlConfig{MergeSize: two},
		}}, 6},
		"GLM-V": {patches, &monopathv1.ProcessorConfig{Source: &monopathv1.ProcessorConfig_GlmVl{
			GlmVl: &monopathv1.GlmVlConfig{MergeSize: two},
		}}, 6},
		"GLM5-Next": {patches, &monopathv1.ProcessorConfig{Source: &monopathv1.ProcessorConfig_GlmNext{
			GlmNext: &monopathv1.GlmNextConfig{MergeSize: two},
		}}, 6},
		"InternVL": {tiles, internVlProcessor(&monopathv1.InternVlConfig{TokensPerTile: proto.Uint32(256)}), 7 * 256},
		"CLIP": {image, fixedSizeProcessor(&monopathv1.FixedSizeConfig{
			PatchSize: proto.Uint32(14), ClassTokenCount: proto.Uint32(1),
		}), 7},
		"a fixed size whose patches are not said": {image, fixedSizeProcessor(&monopathv1.FixedSizeConfig{}), 0},
		"a newer family with a patch grid":        {patches, &monopathv1.ProcessorConfig{}, 24},
		"a newer family without a patch grid":     {tiles, nil, 0},
		"InternVL without a shape": {
			LocalFeatures{}, internVlProcessor(&monopathv1.InternVlConfig{TokensPerTile: two}), 0,
		},
		"a fixed size without a shape": {
			LocalFeatures{}, fixedSizeProcessor(&monopathv1.FixedSizeConfig{PatchSize: two}), 0,
		},
	} {
		if got := localItem(1, one.features, &monopathv1.Ready{Processor: one.config}).GetTokenCount(); got != one.want {
			t.Errorf("expected %d tokens of %s, got %d", one.want, name, got)
		}
	}
}

func TestATokenCountThatTheCallerSaysIsSent(t *testing.T) {
	features := LocalFeatures{GridThw: &monopathv1.GridThw{T: 1, H: 2, W: 2}, TokenCount: 9}
	if got := localItem(1, features, &monopathv1.Ready{}).GetTokenCount(); got != 9 {
		t.Errorf("expected 9 tokens, got %d", got)
	}
}

func TestFeaturesWithoutAPatchGridAreAnnouncedWithAnEmptyOneAndTheirTiles(t *testing.T) {
	tiles := &monopathv1.TileGrid{Columns: 3, Rows: 2, HasThumbnail: true, TileSizePx: 448}
	item := localItem(1, LocalFeatures{TileGrid: tiles}, &monopathv1.Ready{})
	if item.GridThw == nil || item.GridThw.GetT() != 0 || !proto.Equal(item.TileGrid, tiles) {
		t.Errorf("expected an empty grid and the tiles, got %v", item)
	}
}

func TestAPatchGridIsNoneWhereAPlanSaysSomethingElse(t *testing.T) {
	grid := &monopathv1.GridThw{T: 1, H: 4, W: 6}
	if found := PatchGrid(&monopathv1.ImagePlan{GridThw: grid}); found != grid {
		t.Errorf("expected the plan's grid, got %v", found)
	}
	for _, plan := range []*monopathv1.ImagePlan{
		nil,
		{},
		{GridThw: &monopathv1.GridThw{}, Geometry: &monopathv1.ImagePlan_TileGrid{TileGrid: &monopathv1.TileGrid{}}},
	} {
		if found := PatchGrid(plan); found != nil {
			t.Errorf("expected no grid of %v, got %v", plan, found)
		}
	}
}
