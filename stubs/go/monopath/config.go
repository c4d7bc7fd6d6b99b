package monopath

import (
	"google.golang.org/protobuf/proto"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

// Element types of features, under short names.
const (
	UInt8    = monopathv1.DataType_DATA_TYPE_UINT8
	Float32  = monopathv1.DataType_DATA_TYPE_FLOAT32
	BFloat16 = monopathv1.DataType_DATA_TYPE_BFLOAT16
	Float16  = monopathv1.DataType_DATA_TYPE_FLOAT16
)

// Orders in which the items of a stream end, under short names.
const (
	AsCompleted = monopathv1.ResultOrder_RESULT_ORDER_AS_COMPLETED
	AsSent      = monopathv1.ResultOrder_RESULT_ORDER_AS_SENT
)

// A Config says what a stream makes of its items.
type Config struct {
	// Processor is the processor; see Preset and Checkpoint. Required.
	Processor *monopathv1.ProcessorConfig
	// DataType is the element type of the features. Required.
	DataType monopathv1.DataType
	// Order is the order in which items end. Zero: AsCompleted.
	Order monopathv1.ResultOrder
	// DeviceUUID is the GPU, for DeferredCUDA only. Empty: the server's choice.
	DeviceUUID string
	// BypassCache has every item's features made anew.
	BypassCache bool
	// SharedMemory has features and large items travel in memory that this process shares with a server of its host; see
	// Result.View and Result.Release. Where there is none left, one item or another travels in messages after all. Nil:
	// all travel in messages.
	SharedMemory *SharedMemory
	// ChunkBytes is how many bytes of features come in a message, without SharedMemory. Zero: the server's setting.
	ChunkBytes uint32
	// MaxUnfinishedItems bounds the items in flight. Zero: as many as the server takes.
	MaxUnfinishedItems int
	// OnPlan, where given, is called with the plan of each item that gets one, before its result. That is long before
	// its features are there: the plan is made from the image's header. Recv and Map call it, in the caller's
	// goroutine.
	OnPlan func(id int32, label string, plan *monopathv1.ImagePlan)
}

// Preset names a config that the server has, such as "kimi-k3".
func Preset(name string) *monopathv1.ProcessorConfig {
	preset := &monopathv1.PresetConfig{Name: name}
	return &monopathv1.ProcessorConfig{Source: &monopathv1.ProcessorConfig_Preset{Preset: preset}}
}

// Checkpoint is the text of a preprocessor_config.json, as it ships with a checkpoint.
func Checkpoint(preprocessorConfigJSON string) *monopathv1.ProcessorConfig {
	checkpoint := &monopathv1.CheckpointConfig{PreprocessorConfigJson: preprocessorConfigJSON}
	return &monopathv1.ProcessorConfig{Source: &monopathv1.ProcessorConfig_Checkpoint{Checkpoint: checkpoint}}
}

func (c Config) order() monopathv1.ResultOrder {
	if c.Order == monopathv1.ResultOrder_RESULT_ORDER_UNSPECIFIED {
		return AsCompleted
	}
	return c.Order
}

func (c Config) output() *monopathv1.OutputConfig {
	output := &monopathv1.OutputConfig{
		DataType:       c.DataType,
		Order:          c.order(),
		BypassCache:    c.BypassCache,
		GroupResponses: true,
	}
	if c.SharedMemory != nil {
		output.Transport = &monopathv1.OutputConfig_SharedMemory{
			SharedMemory: &monopathv1.SharedMemoryTransport{Probe: c.SharedMemory.probe},
		}
		return output
	}
	inline := &monopathv1.InlineTransport{}
	if c.ChunkBytes != 0 {
		inline.ChunkBytes = proto.Uint32(c.ChunkBytes)
	}
	output.Transport = &monopathv1.OutputConfig_Inline{Inline: inline}
	return output
}
