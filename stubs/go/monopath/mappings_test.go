package monopath

import (
	"bytes"
	"testing"
)

// address is where features lie.
func address(t *testing.T, features []byte) uintptr {
	t.Helper()
	if len(features) == 0 {
		t.Fatal("expected features, got none")
	}
	return addressOf(features)
}

func TestAMappingIsUsedAgainAndShowsWhatTheServerWrote(t *testing.T) {
	server := newMemoryServer(t)
	mappings := &segmentMappings{directory: server.own.directory}
	first := server.place(bytes.Repeat([]byte("first..."), 2000), 1)
	mapped, features, err := mappings.take(first)
	if err != nil || !bytes.HasPrefix(features, []byte("first...")) {
		t.Fatalf("expected the features, got %d bytes and %v", len(features), err)
	}
	before := address(t, features)
	mappings.takeBack(mapped)
	second := server.placeAgain(first.GetName(), bytes.Repeat([]byte("second.."), 1000), 2)
	mapped, features, err = mappings.take(second)
	if err != nil || !bytes.Equal(features, bytes.Repeat([]byte("second.."), 1000)) || address(t, features) != before {
		t.Fatalf("expected the new features where the old ones were, got %d bytes and %v", len(features), err)
	}
	// Its handle leads to another use now.
	mappings.takeBack(mapped)
	if _, _, err := mappings.take(first); err == nil || mappingCount(t, server.own.directory) != 0 {
		t.Errorf("expected a handle of a use that is over to lead nowhere, got %v", err)
	}
}

func TestAMappingThatWasWrittenToIsNotUsedAgain(t *testing.T) {
	server := newMemoryServer(t)
	mappings := &segmentMappings{directory: server.own.directory}
	first := server.place([]byte("first..."), 1)
	mapped, features, err := mappings.take(first)
	if err != nil {
		t.Fatal(err)
	}
	copy(features, "scribble")
	mappings.takeBack(mapped)
	if mappingCount(t, server.own.directory) != 0 {
		t.Error("expected no mapping, got one")
	}
	_, features, err = mappings.take(server.placeAgain(first.GetName(), []byte("second.."), 2))
	if err != nil || string(features) != "second.." {
		t.Errorf("expected what the server wrote, got %q and %v", features, err)
	}
}

func TestASegmentOfTwoItemsIsKeptMappedOnce(t *testing.T) {
	server := newMemoryServer(t)
	mappings := &segmentMappings{directory: server.own.directory}
	handle := server.place([]byte("features"), 1)
	var taken []*mapping
	for count := 0; count < 2; count++ {
		mapped, features, err := mappings.take(handle)
		if err != nil || string(features) != "features" {
			t.Fatalf("expected the features, got %q and %v", features, err)
		}
		taken = append(taken, mapped)
	}
	for _, mapped := range taken {
		mappings.takeBack(mapped)
	}
	if mappingCount(t, server.own.directory) != 1 || mappings.idleBytes != len(taken[0].memory) {
		t.Errorf("expected one mapping, got %d and %d bytes", mappingCount(t, server.own.directory), mappings.idleBytes)
	}
	mappings.close()
}

func TestMappingsWithoutFeaturesAreBounded(t *testing.T) {
	server := newMemoryServer(t)
	mappings := &segmentMappings{directory: server.own.directory}
	var taken []*mapping
	for generation := uint64(1); generation <= 3; generation++ {
		mapped, _, err := mappings.take(server.place(make([]byte, maxIdleMappedBytes/2-serverHeaderBytes), generation))
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, mapped)
	}
	for _, mapped := range taken {
		mappings.takeBack(mapped)
	}
	if len(mappings.idle) != 2 || mappings.idleBytes != maxIdleMappedBytes || mappings.idle[1] != taken[2] {
		t.Errorf("expected the last two to be kept, got %d with %d bytes", len(mappings.idle), mappings.idleBytes)
	}
	mappings.close()
	if mappingCount(t, server.own.directory) != 0 || mappings.idleBytes != 0 {
		t.Errorf("expected no mapping, got %d", mappingCount(t, server.own.directory))
	}
}
