// Command conformance runs the contract's vectors with gRPC for Go.
//
// It reads one job a line on stdin, {"address": ..., "vector": {...}}, and writes one outcome a line on stdout, in
// order: {"name": ..., "responses": [...], "status": {...}}. It ends with exit code 0 at the end of stdin. Requests and
// responses travel as raw bytes, so that it can also send what no typed client would.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

const jobTimeout = 60 * time.Second

// A job is one vector, and the server to run it with.
type job struct {
	Address string `json:"address"`
	Vector  vector `json:"vector"`
}

// A vector is one case of the contract, as far as a client has to know it.
type vector struct {
	Name      string            `json:"name"`
	Method    string            `json:"method"`
	Requests  []json.RawMessage `json:"requests"`
	HalfClose bool              `json:"half_close"`
}

// An outcome is what came of a vector. Either it was skipped, or it has responses and a status.
type outcome struct {
	Name      string             `json:"name"`
	Responses *[]json.RawMessage `json:"responses,omitempty"`
	Status    *callStatus        `json:"status,omitempty"`
	Skipped   string             `json:"skipped,omitempty"`
}

// A callStatus is what a call ended with.
type callStatus struct {
	Code       string      `json:"code"`
	Message    string      `json:"message"`
	Reason     string      `json:"reason"`
	Domain     string      `json:"domain"`
	Violations []violation `json:"violations"`
}

// A violation is one wrong field.
type violation struct {
	Field       string `json:"field"`
	Description string `json:"description"`
}

func main() {
	if err := runJobs(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "monopath-conformance:", err)
		os.Exit(1)
	}
}

// runJobs runs the jobs of input, one after another, and writes their outcomes to output.
func runJobs(input io.Reader, output io.Writer) error {
	lines := bufio.NewReader(input)
	encoder := json.NewEncoder(output)
	encoder.SetEscapeHTML(false)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			if err := encoder.Encode(runLine(line)); err != nil {
				return fmt.Errorf("expected to write an outcome, got: %w", err)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("expected a line with a job, got: %w", err)
		}
	}
}

// runLine runs one job. Whatever goes wrong on this side is told as the reason that the vector was skipped for.
func runLine(line []byte) outcome {
	var asked job
	if err := json.Unmarshal(line, &asked); err != nil {
		return outcome{Skipped: fmt.Sprintf("expected a job, got: %v", err)}
	}
	ctx, cancel := context.WithTimeout(context.Background(), jobTimeout)
	defer cancel()
	responses, status, err := runVector(ctx, asked.Address, asked.Vector)
	if err != nil {
		return outcome{Name: asked.Vector.Name, Skipped: err.Error()}
	}
	return outcome{Name: asked.Vector.Name, Responses: &responses, Status: &status}
}
