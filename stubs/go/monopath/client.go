package monopath

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

// A Client opens streams and makes calls over one gRPC connection. Goroutines may share it.
type Client struct {
	stub  monopathv1.PreprocessingServiceClient
	close func() error
}

// NewClient returns a client over a connection that the caller made and closes.
func NewClient(connection grpc.ClientConnInterface) *Client {
	return &Client{monopathv1.NewPreprocessingServiceClient(connection), func() error { return nil }}
}

// Dial returns a client over a connection of its own, which Close closes. Nothing is sent yet.
//
// Without options the connection is neither encrypted nor authenticated, as a server is by default. Beyond one host, say
// grpc.WithTransportCredentials; WithToken and WithTokenFile are for servers that ask for a token.
func Dial(address string, options ...grpc.DialOption) (*Client, error) {
	options, err := dialOptions(address, options)
	if err != nil {
		return nil, err
	}
	connection, err := grpc.Dial(address, options...)
	if err != nil {
		return nil, fmt.Errorf("monopath: expected the address of a server, got %q: %w", address, err)
	}
	return &Client{monopathv1.NewPreprocessingServiceClient(connection), connection.Close}, nil
}

// Close closes the connection, if Dial made it. What still runs over it ends with an error.
func (c *Client) Close() error {
	return c.close()
}

// DeferredCPU opens a stream of images that the server's CPU turns into features.
//
// The context holds for the whole stream: when it ends, the stream is cancelled. The error is a *StreamError where the
// server refuses the stream, such as for its config. Each stream has to be ended, by Close, Finish or the context.
func (c *Client) DeferredCPU(ctx context.Context, config Config) (*Stream[CPUImage], error) {
	return openStream(ctx, c.stub, deferredCPU, config)
}

// DeferredCUDA opens a stream of images that the server's GPU turns into features. It is as DeferredCPU else; a server
// without a GPU refuses it with the reason DEVICE_UNAVAILABLE.
func (c *Client) DeferredCUDA(ctx context.Context, config Config) (*Stream[CUDAImage], error) {
	return openStream(ctx, c.stub, deferredCUDA, config)
}

// Local opens a stream of finished features, which the server checks and converts. It is as DeferredCPU else.
func (c *Client) Local(ctx context.Context, config Config) (*Stream[LocalFeatures], error) {
	return openStream(ctx, c.stub, local, config)
}

// Plan tells geometry, token counts and encoder ranks of images from their sizes alone. The error is a *StreamError.
func (c *Client) Plan(ctx context.Context, request *monopathv1.PlanRequest) (*monopathv1.PlanResponse, error) {
	response, err := c.stub.Plan(ctx, request)
	if err != nil {
		return nil, errorOfStatus(ctx, err, nil)
	}
	return response, nil
}

// GetCapabilities tells what the server can do, and why it cannot do the rest. The error is a *StreamError.
func (c *Client) GetCapabilities(ctx context.Context) (*monopathv1.GetCapabilitiesResponse, error) {
	response, err := c.stub.GetCapabilities(ctx, &monopathv1.GetCapabilitiesRequest{})
	if err != nil {
		return nil, errorOfStatus(ctx, err, nil)
	}
	return response, nil
}
