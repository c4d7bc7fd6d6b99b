package monopath

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

// startRecorder serves calls whose authorization it puts into a channel, and returns its address.
func startRecorder(t *testing.T) (string, chan string) {
	t.Helper()
	seen := make(chan string, 10)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	queue := make(chan func(cpuCall) error, 10)
	server := grpc.NewServer()
	monopathv1.RegisterPreprocessingServiceServer(server, &fakeServer{cpu: queue})
	for count := 0; count < cap(queue); count++ {
		queue <- func(call cpuCall) error {
			found, _ := metadata.FromIncomingContext(call.Context())
			seen <- strings.Join(found.Get("authorization"), ", ")
			return serveAll(call)
		}
	}
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return listener.Addr().String(), seen
}

// authorization opens a stream, and returns what it was opened with.
func authorization(t *testing.T, client *Client, seen chan string) string {
	t.Helper()
	stream, err := client.DeferredCPU(testContext(t), testConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	return <-seen
}

func mustDial(t *testing.T, address string, options ...grpc.DialOption) *Client {
	t.Helper()
	client, err := Dial(address, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func TestATokenComesWithEachCall(t *testing.T) {
	address, seen := startRecorder(t)
	client := mustDial(t, address, WithToken("abc.DEF-123=="))
	for count := 0; count < 2; count++ {
		if got := authorization(t, client, seen); got != "Bearer abc.DEF-123==" {
			t.Errorf("expected the token, got %q", got)
		}
	}
	if got := authorization(t, mustDial(t, address), seen); got != "" {
		t.Errorf("expected no token where none was given, got %q", got)
	}
	withOthers := mustDial(t, address, grpc.WithInsecure(), WithToken("abc"))
	if got := authorization(t, withOthers, seen); got != "Bearer abc" {
		t.Errorf("expected the token, got %q", got)
	}
}

func TestATokenInAFileIsReadForEachCall(t *testing.T) {
	address, seen := startRecorder(t)
	file := filepath.Join(t.TempDir(), "token")
	write := func(content string) {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# ours\n\n  first  \nsecond\n")
	client := mustDial(t, address, WithTokenFile(file))
	if got := authorization(t, client, seen); got != "Bearer first" {
		t.Errorf("expected the first token of the file, got %q", got)
	}
	write("renewed\n")
	if got := authorization(t, client, seen); got != "Bearer renewed" {
		t.Errorf("expected the new token, got %q", got)
	}
	// A file that is being replaced holds no token for a while.
	write("")
	if got := authorization(t, client, seen); got != "Bearer renewed" {
		t.Errorf("expected the token of before, got %q", got)
	}
}

func TestWhatIsNoTokenIsRefusedAndNotShown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	for _, wrong := range []string{"two words", "", "line\nbreak", "secret\x00"} {
		if _, err := Dial("127.0.0.1:1", WithToken(wrong)); err == nil || wrong != "" && strings.Contains(err.Error(), wrong) {
			t.Errorf("expected %q to be refused and not shown, got %v", wrong, err)
		}
	}
	if _, err := Dial("127.0.0.1:1", WithTokenFile(file)); err == nil {
		t.Error("expected a missing file to be refused, got a client")
	}
	// gRPC's own Dial does not ask: the calls end with it.
	missing := tokenCredentials{source: &tokenSource{path: file}}
	if _, err := missing.GetRequestMetadata(testContext(t)); status.Code(err) != codes.Unauthenticated {
		t.Errorf("expected a missing file to end the call, got %v", err)
	}
}

func TestATokenDoesNotLeaveThisHostInPlaintext(t *testing.T) {
	for _, options := range [][]grpc.DialOption{{WithToken("abc")}, {WithToken("abc"), grpc.WithInsecure()}} {
		if _, err := Dial("features.example.com:50051", options...); err == nil {
			t.Errorf("expected plaintext to be refused with %d options, got a client", len(options))
		}
	}
	if _, err := grpc.Dial("127.0.0.1:1", grpc.WithInsecure(), WithToken("abc")); err == nil {
		t.Error("expected plaintext to be refused by gRPC's own Dial, got a connection")
	}
	encrypted := grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{}))
	mustDial(t, "features.example.com:50051", WithToken("abc"), encrypted)
}

func TestAnAddressOnThisHostIsKnownByItsText(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:50051": true, "127.8.9.1:1": true, "[::1]:50051": true, "::1": true, "localhost:50051": true,
		"LOCALHOST": true, "unix:/run/monopath": true, "unix:///run/monopath": true, "unix-abstract:monopath": true,
		"dns:///localhost:50051": true, "passthrough:///127.0.0.1:1": true, "127.0.0.1": true,
		"features.example.com:50051": false, "10.0.0.1:50051": false, "[2001:db8::1]:50051": false, "0.0.0.0:50051": false,
		"dns:50051": false, "dns://8.8.8.8/localhost:50051": false, "localhost.example.com:50051": false,
		"127.0.0.1:50051,10.0.0.1:50051": false, "": false, ":50051": false, "127.0.0.1.example.com:1": false,
	} {
		if got := isOnThisHost(address); got != want {
			t.Errorf("expected %v of %q, got %v", want, address, got)
		}
	}
}
