package channel

import (
	"errors"
	"strings"
	"testing"
)

func TestAMissingArgumentOfAChannelIsNamed(t *testing.T) {
	_, noListener := NewListener(nil, nil, Backoff{})
	_, noConnector := NewConnector(nil, nil, Backoff{})
	_, noGrant := Attach(t.Context(), nil, Instance{}, nil)
	_, noInfo := Dial(t.Context(), nil, nil)
	for _, err := range []error{noListener, noConnector, noGrant, noInfo} {
		var told *Error
		if !errors.As(err, &told) || told.Stage != StageGrant || !strings.Contains(told.Text, "nil") {
			t.Error(err)
		}
	}
}
