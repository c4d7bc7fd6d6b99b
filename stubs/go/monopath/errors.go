package monopath

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

const errorDomain = "monopath.v1"

var (
	// ErrProtocol is what a server that broke the contract's grammar is told by; nothing after that can be trusted.
	ErrProtocol = errors.New("monopath: the server broke the protocol")
	// ErrMoved says that the server asked to move to a new stream, and that no new stream could carry on.
	ErrMoved = errors.New("monopath: no new stream could carry on")
	// ErrClosed says that the stream was used after it had been closed at this side.
	ErrClosed = errors.New("monopath: the stream was closed")
)

// A Violation is one wrong or missing field.
type Violation struct {
	// Field is the path of the field, as its author wrote it: "media_proc_cfg.patch_size".
	Field string
	// Description says what was expected and what was found.
	Description string
}

// A StreamError is what a stream or a call ended with, other than OK.
type StreamError struct {
	// Code is the status.
	Code codes.Code
	// Reason is a monopathv1.StreamErrorReason without its prefix, such as "CONFIG_INVALID". Empty where none was
	// given, such as where no server was reached.
	Reason string
	// Message is the same in words.
	Message string
	// Violations are all wrong fields, where fields are wrong.
	Violations []Violation
	// RetryAfter is when the same may be tried again, where the server said so.
	RetryAfter time.Duration

	cause error
}

func (e *StreamError) Error() string {
	var text strings.Builder
	text.WriteString("monopath: ")
	if e.Reason != "" {
		text.WriteString(e.Reason)
	} else {
		text.WriteString(e.Code.String())
	}
	text.WriteString(": " + e.Message)
	for _, violation := range e.Violations {
		fmt.Fprintf(&text, "\n  %s: %s", violation.Field, violation.Description)
	}
	return text.String()
}

// Unwrap returns the error of the caller's context or of the system, where that is what ended the stream, else nil.
func (e *StreamError) Unwrap() error {
	return e.cause
}

// Retryable says that the same may succeed later, here or at another replica, without being changed.
func (e *StreamError) Retryable() bool {
	if e.Reason == "" {
		return e.Code == codes.Unavailable
	}
	number, known := monopathv1.StreamErrorReason_value[streamReasonPrefix+e.Reason]
	if !known {
		return e.RetryAfter > 0
	}
	return traitsOf(monopathv1.StreamErrorReason(number)).GetRetryable()
}

// An ItemError is the end of an item that has no features. It is found as a value, in Result.Err.
type ItemError struct {
	ID    int32
	Label string
	// Reason is why. It may be one that this release does not know, and then prints as a number.
	Reason monopathv1.ItemErrorReason
	// Message is the same in words, with what was expected and what was found.
	Message string
	// Field is the field of the item that is wrong, where one is: "image.pixels.format".
	Field string
	// RetryAfter is when the same item may be sent again, where the server said so.
	RetryAfter time.Duration
}

func (e *ItemError) Error() string {
	text := fmt.Sprintf("monopath: item %d", e.ID)
	if e.Label != "" {
		text += fmt.Sprintf(" (%s)", e.Label)
	}
	text += ": " + strings.TrimPrefix(e.Reason.String(), "ITEM_ERROR_REASON_")
	if e.Field != "" {
		text += fmt.Sprintf(" [%s]", e.Field)
	}
	return text + ": " + e.Message
}

// Code is the class of the error, as a status; an item has no status of its own. Unknown for a reason that is not
// known.
func (e *ItemError) Code() codes.Code {
	return codeOf(traitsOf(e.Reason))
}

// Retryable says that the same item may succeed later without being changed.
func (e *ItemError) Retryable() bool {
	if traits := traitsOf(e.Reason); traits != nil {
		return traits.GetRetryable()
	}
	return e.RetryAfter > 0
}

const streamReasonPrefix = "STREAM_ERROR_REASON_"

// traitsOf reads what the contract says about a reason. It returns nil for one that this release does not know.
func traitsOf(reason protoreflect.Enum) *monopathv1.ReasonTraits {
	value := reason.Descriptor().Values().ByNumber(reason.Number())
	if value == nil {
		return nil
	}
	return proto.GetExtension(value.Options(), monopathv1.E_Traits).(*monopathv1.ReasonTraits)
}

func codeOf(traits *monopathv1.ReasonTraits) codes.Code {
	if traits.GetCode() == monopathv1.GrpcCode_GRPC_CODE_UNSPECIFIED {
		return codes.Unknown
	}
	return codes.Code(traits.GetCode())
}

// errorOfStatus returns what a call ended with. failure is what the server told in the stream before, if it did; it
// speaks where the status says nothing, such as where the connection was lost behind it.
func errorOfStatus(ctx context.Context, err error, failure *monopathv1.StreamFailure) *StreamError {
	ended := status.Convert(err)
	found := &StreamError{Code: ended.Code(), Message: ended.Message()}
	for _, detail := range ended.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.GetDomain() == errorDomain {
				found.Reason = detail.GetReason()
			}
		case *errdetails.BadRequest:
			for _, one := range detail.GetFieldViolations() {
				found.Violations = append(found.Violations, Violation{one.GetField(), one.GetDescription()})
			}
		case *errdetails.RetryInfo:
			delay := detail.GetRetryDelay()
			found.RetryAfter = time.Duration(delay.GetSeconds())*time.Second + time.Duration(delay.GetNanos())
		}
	}
	if failure != nil && found.Reason == "" {
		told := errorOfFailure(failure)
		told.Code = found.Code
		return told
	}
	if ctx.Err() != nil && found.Reason == "" {
		found.cause = ctx.Err()
	}
	return found
}

// errorOfFailure returns the error of a stream that told its failure, with the status that its reason has.
func errorOfFailure(failure *monopathv1.StreamFailure) *StreamError {
	told := &StreamError{
		Code:    codeOf(traitsOf(failure.GetReason())),
		Reason:  strings.TrimPrefix(failure.GetReason().String(), streamReasonPrefix),
		Message: failure.GetMessage(),
	}
	for _, one := range failure.GetViolations() {
		told.Violations = append(told.Violations, Violation{one.GetField(), one.GetDescription()})
	}
	return told
}

func errorOfContext(err error) *StreamError {
	return &StreamError{Code: status.FromContextError(err).Code(), Message: err.Error(), cause: err}
}

func itemErrorOf(sent *monopathv1.ItemError, label string) *ItemError {
	return &ItemError{
		ID:         sent.GetId(),
		Label:      label,
		Reason:     sent.GetReason(),
		Message:    sent.GetMessage(),
		Field:      sent.GetField(),
		RetryAfter: sent.GetRetryAfter().AsDuration(),
	}
}

func protocolError(format string, arguments ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, arguments...))
}
