package monopath

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

var tokenForm = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)

// WithToken sends a bearer token with each call. For Dial, or for grpc.Dial: there it demands TLS in any case.
//
// Beyond this host Dial demands TLS too: grpc.WithTransportCredentials.
func WithToken(token string) grpc.DialOption {
	return newTokenOption(&tokenSource{latest: token, err: checkToken(token, "the token")})
}

// WithTokenFile is WithToken with the first line of a file that is neither empty nor a comment. The file is read for
// each call, so that the token can be replaced; while it cannot be read, the last one holds.
func WithTokenFile(path string) grpc.DialOption {
	source := &tokenSource{path: path}
	source.read()
	return newTokenOption(source)
}

// A tokenSource is a token, or where it is read. Goroutines may share it.
type tokenSource struct {
	path string

	mutex  sync.Mutex
	latest string
	// err is why there has been no token yet.
	err error
}

// read returns the token of now; while its file cannot be read, that of before.
func (s *tokenSource) read() (string, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.path != "" {
		token, err := readToken(s.path)
		if err == nil {
			s.latest, s.err = token, nil
		} else if s.latest == "" {
			s.err = err
		}
	}
	return s.latest, s.err
}

func readToken(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("monopath: expected a file with a token, got: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" && !strings.HasPrefix(line, "#") {
			return line, checkToken(line, "the first line of "+path)
		}
	}
	return "", checkToken("", "the first line of "+path)
}

// checkToken does not show in its error what may be a secret.
func checkToken(token, where string) error {
	if !tokenForm.MatchString(token) {
		return fmt.Errorf("monopath: expected %s to be letters, digits and -._~+/ only, got something else", where)
	}
	return nil
}

// A tokenOption is one that Dial knows among the others.
type tokenOption struct {
	grpc.DialOption
	source *tokenSource
}

func newTokenOption(source *tokenSource) grpc.DialOption {
	return tokenOption{grpc.WithPerRPCCredentials(tokenCredentials{source: source}), source}
}

// tokenCredentials put a token into the metadata of each call.
type tokenCredentials struct {
	source *tokenSource
	// What is sent stays on this host.
	onThisHost bool
}

var _ credentials.PerRPCCredentials = tokenCredentials{}

func (c tokenCredentials) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := c.source.read()
	if err != nil {
		return nil, status.Error(codes.Unauthenticated, err.Error())
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

func (c tokenCredentials) RequireTransportSecurity() bool {
	return !c.onThisHost
}

// dialOptions returns what gRPC is to be given: tokens that know whether they leave this host, and plaintext where
// nothing is said of encryption.
func dialOptions(address string, options []grpc.DialOption) ([]grpc.DialOption, error) {
	var given, tokens []grpc.DialOption
	onThisHost := isOnThisHost(address)
	for _, option := range options {
		token, ok := option.(tokenOption)
		if !ok {
			given = append(given, option)
			continue
		}
		if _, err := token.source.read(); err != nil {
			return nil, err
		}
		tokens = append(tokens, grpc.WithPerRPCCredentials(tokenCredentials{token.source, onThisHost}))
	}
	if len(tokens) > 0 && !onThisHost && len(given) == 0 {
		return nil, fmt.Errorf("monopath: expected TLS for a token beyond this host, got plaintext to %q: "+
			"give grpc.WithTransportCredentials", address)
	}
	if len(given) == 0 {
		// Deprecated in new releases of gRPC, but the only name for it that 1.33 has too; kept throughout 1.x.
		given = append(given, grpc.WithInsecure())
		if len(tokens) > 0 {
			// A proxy from the environment would read it.
			given = append(given, grpc.WithNoProxy())
		}
	}
	return append(given, tokens...), nil
}
