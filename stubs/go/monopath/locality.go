package monopath

import (
	"net"
	"regexp"
	"strings"
)

var addressScheme = regexp.MustCompile(`(?s)^(unix|unix-abstract|dns|passthrough):(.*)$`)

// isOnThisHost says that nothing that is sent to a gRPC name crosses a network, judged by its text alone: a name server
// is never asked. True for unix sockets, for loopback addresses and for "localhost"; for other names it is not, wherever
// they lead.
func isOnThisHost(target string) bool {
	rest := target
	// "dns:50051" could also be a host of that name; it is none of ours either way.
	if match := addressScheme.FindStringSubmatch(target); match != nil {
		if strings.HasPrefix(match[1], "unix") {
			return true
		}
		rest = match[2]
	}
	if strings.HasPrefix(rest, "//") {
		authority, path, _ := strings.Cut(rest[2:], "/")
		if authority != "" {
			return false
		}
		rest = path
	}
	for _, address := range strings.Split(rest, ",") {
		if !isLoopback(address) {
			return false
		}
	}
	return true
}

func isLoopback(address string) bool {
	host := address
	if split, _, err := net.SplitHostPort(address); err == nil {
		host = split
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return ip != nil && ip.IsLoopback()
}
