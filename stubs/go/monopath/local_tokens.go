package monopath

import (
	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

// tokenCountOf returns the tokens of finished features, as the config of their stream gives them: from their grid, or
// from their shape where they have none. Zero where the config does not say how many.
func tokenCountOf(features LocalFeatures, config *monopathv1.ProcessorConfig) uint32 {
	switch source := config.GetSource().(type) {
	case *monopathv1.ProcessorConfig_InternVl:
		return tokensOfTiles(features.Shape, source.InternVl)
	case *monopathv1.ProcessorConfig_FixedSize:
		return tokensOfFixedSize(features.Shape, source.FixedSize)
	case *monopathv1.ProcessorConfig_Kimi:
		if source.Kimi.FixedOutputTokens != nil {
			return source.Kimi.GetFixedOutputTokens()
		}
	}
	side := mergeSide(config)
	grid := features.GridThw
	return grid.GetT() * (grid.GetH() / side) * (grid.GetW() / side)
}

func tokensOfTiles(shape []int64, config *monopathv1.InternVlConfig) uint32 {
	if len(shape) == 0 {
		return 0
	}
	return uint32(shape[0]) * config.GetTokensPerTile()
}

func tokensOfFixedSize(shape []int64, config *monopathv1.FixedSizeConfig) uint32 {
	patch := int64(config.GetPatchSize())
	if patch == 0 || len(shape) != 4 {
		return 0
	}
	return uint32((shape[2]/patch)*(shape[3]/patch)) + config.GetClassTokenCount()
}

// mergeSide is how many patches a side become one token; 1 for a family that this release does not know.
func mergeSide(config *monopathv1.ProcessorConfig) uint32 {
	var side uint32
	switch source := config.GetSource().(type) {
	case *monopathv1.ProcessorConfig_Kimi:
		side = source.Kimi.GetMergeKernelSize()
	case *monopathv1.ProcessorConfig_KimiVl:
		side = source.KimiVl.GetMergeKernelSize()
	case *monopathv1.ProcessorConfig_QwenVl:
		side = source.QwenVl.GetMergeSize()
	case *monopathv1.ProcessorConfig_GlmVl:
		side = source.GlmVl.GetMergeSize()
	case *monopathv1.ProcessorConfig_GlmNext:
		side = source.GlmNext.GetMergeSize()
	}
	if side == 0 {
		return 1
	}
	return side
}
