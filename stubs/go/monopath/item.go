package monopath

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

// DeferredCPUPath marks what belongs to the path DEFERRED_CPU.
type DeferredCPUPath struct{}

// DeferredCUDAPath marks what belongs to the path DEFERRED_CUDA.
type DeferredCUDAPath struct{}

// An Image is one image for a deferred path: either a file, in Encoded, or decoded pixels, in Pixels.
type Image[P DeferredCPUPath | DeferredCUDAPath] struct {
	// Label is free text that comes back with the item's result.
	Label string
	// Encoded is the image file, as it lies on disk.
	Encoded []byte
	// Pixels are the image's pixels.
	Pixels *Pixels
	// Traceparent is the W3C trace context of this item.
	Traceparent string
	// ExpectedSHA256 is what the image's bytes must have, checked before they are decoded: 32 bytes, or none.
	ExpectedSHA256 []byte
}

// A CPUImage is an item of the path DEFERRED_CPU.
type CPUImage = Image[DeferredCPUPath]

// A CUDAImage is an item of the path DEFERRED_CUDA.
type CUDAImage = Image[DeferredCUDAPath]

// Pixels are decoded: 8 bits a channel, channels interleaved, lines top to bottom without gaps.
type Pixels struct {
	WidthPx, HeightPx uint32
	Format            monopathv1.PixelFormat
	// Data is width x height x channels bytes.
	Data []byte
}

// LocalFeatures are an item of the path LOCAL: features that this side has finished.
type LocalFeatures struct {
	// Label is free text that comes back with the item's result.
	Label string
	// OriginalSize is the size of the image, after the config's orientation policy was applied.
	OriginalSize *monopathv1.Size
	// GridThw is the patch grid. It must be the plan's; nil for a family that has none.
	GridThw *monopathv1.GridThw
	// TileGrid are the tiles, which must be the plan's. Nil: not said, or none.
	TileGrid *monopathv1.TileGrid
	// TokenCount must be the plan's. Zero: what the grid or the shape, and the stream's config, give.
	TokenCount uint32
	// DataType is the element type of Data; it may be another than the stream's.
	DataType monopathv1.DataType
	// Shape is rows, channels, height and width of a row's pixels; frames behind the channels.
	Shape []int64
	// Data is the tensor: little-endian, row-major.
	Data []byte
	// Traceparent is the W3C trace context of this item.
	Traceparent string
	// ContentSHA256 is the SHA-256 of the source image, if it is wanted in the provenance: 32 bytes, or none.
	ContentSHA256 []byte
}

// An Item is what can be sent on a stream. Its type is the stream's path.
type Item interface {
	CPUImage | CUDAImage | LocalFeatures
}

const (
	requestChunkBytes = 1 << 20
	// More than the fields of a request take besides texts and payload.
	requestEnvelopeBytes = 256
)

// An outgoing is an item that is ready to be sent, whatever its path.
type outgoing struct {
	label   string
	payload []byte
	// The payload, where it travels in shared memory.
	upload *upload
	// textBytes is how many bytes the item's texts have.
	textBytes uint64
	// largestInlineRequestBytes bounds the item's requests, where its payload travels in them.
	largestInlineRequestBytes func(limits *monopathv1.StreamLimits) uint64
	// requests hands the item's requests to send, in order, and stops at its first error. The handle is that of the
	// payload; nil where it travels in requests.
	requests func(
		id int32, ready *monopathv1.Ready, handle *monopathv1.SharedMemoryHandle, send func(proto.Message) error,
	) error
}

// largestRequestBytes bounds the item's requests.
func (o outgoing) largestRequestBytes(limits *monopathv1.StreamLimits) uint64 {
	if o.upload != nil {
		return o.textBytes + handleBytes + requestEnvelopeBytes
	}
	return o.largestInlineRequestBytes(limits)
}

// prepareImage makes an image ready; request wraps the fields that both deferred paths have.
func prepareImage[P DeferredCPUPath | DeferredCUDAPath](
	image Image[P], request func(id int32, source *monopathv1.ImageSource) proto.Message,
) (outgoing, error) {
	if image.Encoded != nil && image.Pixels != nil {
		return outgoing{}, errors.New("monopath: expected an image with Encoded or Pixels, got both")
	}
	if err := checkTexts(image.Label, image.Traceparent); err != nil {
		return outgoing{}, err
	}
	payload := image.Encoded
	if image.Pixels != nil {
		payload = image.Pixels.Data
	}
	texts := uint64(len(image.Label) + len(image.Traceparent))
	largest := uint64(len(payload)) + texts + requestEnvelopeBytes
	return outgoing{
		label:                     image.Label,
		payload:                   payload,
		textBytes:                 texts,
		largestInlineRequestBytes: func(*monopathv1.StreamLimits) uint64 { return largest },
		requests: func(
			id int32, _ *monopathv1.Ready, handle *monopathv1.SharedMemoryHandle, send func(proto.Message) error,
		) error {
			return send(request(id, imageSource(image.Encoded, image.Pixels, handle)))
		},
	}, nil
}

// imageSource returns an image as it is sent: with its bytes, or with the handle that leads to them.
func imageSource(encoded []byte, pixels *Pixels, handle *monopathv1.SharedMemoryHandle) *monopathv1.ImageSource {
	if pixels == nil {
		image := &monopathv1.EncodedImage{Location: &monopathv1.EncodedImage_Data{Data: encoded}}
		if handle != nil {
			image.Location = &monopathv1.EncodedImage_SharedMemory{SharedMemory: handle}
		}
		return &monopathv1.ImageSource{Content: &monopathv1.ImageSource_Encoded{Encoded: image}}
	}
	raw := &monopathv1.RawPixels{
		WidthPx:  pixels.WidthPx,
		HeightPx: pixels.HeightPx,
		Format:   pixels.Format,
		Location: &monopathv1.RawPixels_Data{Data: pixels.Data},
	}
	if handle != nil {
		raw.Location = &monopathv1.RawPixels_SharedMemory{SharedMemory: handle}
	}
	return &monopathv1.ImageSource{Content: &monopathv1.ImageSource_Pixels{Pixels: raw}}
}

func prepareFeatures(features LocalFeatures) (outgoing, error) {
	if uint64(len(features.Data)) > math.MaxUint32 {
		return outgoing{}, fmt.Errorf("monopath: expected features of less than 4 GiB, got %d bytes", len(features.Data))
	}
	if err := checkTexts(features.Label, features.Traceparent); err != nil {
		return outgoing{}, err
	}
	texts := uint64(len(features.Label) + len(features.Traceparent))
	return outgoing{
		label:     features.Label,
		payload:   features.Data,
		textBytes: texts,
		largestInlineRequestBytes: func(limits *monopathv1.StreamLimits) uint64 {
			largest := uint64(len(features.Data))
			if chunk := uint64(chunkBytes(limits)); largest > chunk {
				largest = chunk
			}
			if largest < texts {
				largest = texts
			}
			return largest + requestEnvelopeBytes
		},
		requests: func(
			id int32, ready *monopathv1.Ready, handle *monopathv1.SharedMemoryHandle, send func(proto.Message) error,
		) error {
			item := localItem(id, features, ready)
			announcement := &monopathv1.StreamLocalRequest_Item{Item: item}
			if err := send(&monopathv1.StreamLocalRequest{Payload: announcement}); err != nil {
				return err
			}
			if handle != nil {
				location := &monopathv1.LocalItemFeatures_SharedMemory{SharedMemory: handle}
				return send(featuresRequest(&monopathv1.LocalItemFeatures{Id: id, Location: location}))
			}
			step := chunkBytes(ready.GetLimits())
			for offset := 0; offset < len(features.Data); offset += step {
				end := offset + step
				if end > len(features.Data) {
					end = len(features.Data)
				}
				chunk := &monopathv1.FeatureChunk{OffsetBytes: uint32(offset), Data: features.Data[offset:end]}
				location := &monopathv1.LocalItemFeatures_Chunk{Chunk: chunk}
				if err := send(featuresRequest(&monopathv1.LocalItemFeatures{Id: id, Location: location})); err != nil {
					return err
				}
			}
			return nil
		},
	}, nil
}

// checkTexts refuses what cannot be sent: protobuf would not write it, and gRPC would end the whole stream for that.
func checkTexts(label, traceparent string) error {
	for _, text := range []string{label, traceparent} {
		if !utf8.ValidString(text) {
			return fmt.Errorf("monopath: expected UTF-8 in Label and Traceparent, got %q", text)
		}
	}
	return nil
}

func localItem(id int32, features LocalFeatures, ready *monopathv1.Ready) *monopathv1.LocalItem {
	tokenCount := features.TokenCount
	if tokenCount == 0 {
		tokenCount = tokenCountOf(features, ready.GetProcessor())
	}
	grid := features.GridThw
	if grid == nil {
		// A plan without a grid is met by an empty one: the contract wants the field.
		grid = &monopathv1.GridThw{}
	}
	return &monopathv1.LocalItem{
		Id:           id,
		Label:        features.Label,
		OriginalSize: features.OriginalSize,
		GridThw:      grid,
		TileGrid:     features.TileGrid,
		TokenCount:   tokenCount,
		Features: &monopathv1.TensorSpec{
			DataType: features.DataType, Shape: features.Shape, SizeBytes: uint32(len(features.Data)),
		},
		Traceparent:   features.Traceparent,
		ContentSha256: features.ContentSHA256,
	}
}

func featuresRequest(features *monopathv1.LocalItemFeatures) proto.Message {
	return &monopathv1.StreamLocalRequest{Payload: &monopathv1.StreamLocalRequest_ItemFeatures{ItemFeatures: features}}
}

// chunkBytes returns how many bytes of features go into one request.
func chunkBytes(limits *monopathv1.StreamLimits) int {
	limit := limits.GetMaxRequestBytes()
	switch {
	case limit == 0 || limit >= requestChunkBytes+requestEnvelopeBytes:
		return requestChunkBytes
	case limit > requestEnvelopeBytes:
		return int(limit - requestEnvelopeBytes)
	default:
		return 1
	}
}
