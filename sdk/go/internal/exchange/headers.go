package exchange

import (
	"fmt"
	"slices"
	"strings"

	"sealway.dev/go/session"
	"sealway.dev/go/wire"
)

// ofSealedBody are headers that describe a sealed body and not the one inside, or ask for what a sealed answer cannot be.
var ofSealedBody = strings.Fields(`content-type content-length content-encoding accept-encoding accept expect range if-range if-match
	if-none-match if-modified-since if-unmodified-since te trailer upgrade connection keep-alive proxy-connection http2-settings`)

// ofServiceBody are headers that describe the service's own body, which goes into the seal, and those that a seal writes itself.
var ofServiceBody = strings.Fields(`content-type content-length content-encoding content-range accept-ranges etag last-modified trailer
	transfer-encoding cache-control server-timing`)

func isOurs(name string) bool { return wire.IsSealing(name) || session.IsClaimed(name) }

// Crosses says whether a header from outside a seal may reach a service with a request whose headers are not sealed: none of a seal,
// none that the server alone may say, and none of where the request came from unless the peer in front is trusted.
func Crosses(name string, frontTrusted bool) bool {
	name = strings.ToLower(name)
	return !isOurs(name) && (!session.IsOrigin(name) || session.IsBelieved(name, frontTrusted))
}

// Headers are those of the request that a service sees; outer are those outside the seal.
func (p *PlainRequest) Headers(outer wire.HeaderList, frontTrusted bool) wire.HeaderList {
	var list wire.HeaderList
	if !p.Reply.Whole() {
		list = session.ServiceHeaders(outer, p.Inner, frontTrusted)
	} else {
		for _, header := range outer {
			if Crosses(header.Name, frontTrusted) && !slices.Contains(ofSealedBody, strings.ToLower(header.Name)) {
				list = append(list, header)
			}
		}
		list = append(list, wire.Header{Name: "Content-Type", Value: "application/json"})
	}
	record := p.Reply.Session().Record()
	for name, value := range map[string]string{"X-Sealway-Client-Id": record.ClientID, "X-Sealway-Auth": string(record.Auth),
		"X-Sealway-Subject": record.Subject, "X-Sealway-Tenant": record.Tenant} {
		if value != "" {
			list = append(list, wire.Header{Name: name, Value: headerText(value)})
		}
	}
	return list
}

// headerText writes a text as a header carries it, two texts never alike: what is not visible ASCII, percent signs, and spaces
// at its ends are percent-encoded.
func headerText(text string) string {
	var out strings.Builder
	for i := range len(text) {
		b := text[i]
		if b > ' ' && b < 0x7f && b != '%' || b == ' ' && i > 0 && i < len(text)-1 {
			out.WriteByte(b)
		} else {
			fmt.Fprintf(&out, "%%%02X", b)
		}
	}
	return out.String()
}

// InnerOf writes the headers of a message as they go within its seal. Those that frame it are made anew at the other end.
func InnerOf(headers wire.HeaderList) ([]byte, error) {
	var inner wire.HeaderList
	for _, header := range headers {
		if name := strings.ToLower(header.Name); session.MayBeInner(name) {
			inner = append(inner, wire.Header{Name: name, Value: header.Value})
		}
	}
	return session.EncodeInner(inner)
}

// answerHeaders are the headers of a service's answer that stay outside its seal: those that the ones in between act on, where the seal
// has headers; else all that do not describe what is sealed.
func answerHeaders(headers wire.HeaderList, sealsHeaders bool) (outer wire.HeaderList) {
	for _, header := range headers {
		name := strings.ToLower(header.Name)
		stays := !isOurs(name) && !slices.Contains(ofServiceBody, name)
		if sealsHeaders {
			stays = name == "set-cookie" || name == "retry-after" || strings.HasPrefix(name, "access-control-")
		}
		if stays {
			outer = append(outer, header)
		}
	}
	return outer
}
