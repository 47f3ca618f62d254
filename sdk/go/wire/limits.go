package wire

// Bounds of spec/session.md#limits, spec/session-3.md#limits and spec/one-shot.md#limits, in bytes unless a name says otherwise.
const (
	KeyLen            = 32
	IVLen             = 12
	TagLen            = 16
	PointLen          = 65
	NonceLenMax       = 128
	NonceLenMinV1     = 16 // on /v1/session/init
	NativeNonceLenMin = 16
	StampDigitsMax    = 15
	ClientIDLenMax    = 256
	PathLenMax        = 8192
	JSONDepthMax      = 127
	InitBodyMax       = 64 << 10
	InitAnonBodyMax   = 4 << 10
	InitV1BodyMax     = 1 << 20
	NativeInitBodyMax = 16 << 10
	SealedBodyMax     = 1 << 20 // unless a route says otherwise
	AnonBodyMax       = 4 << 10
	AuthorityBodyMax  = 64 << 10
	ProblemLenMax     = 96 << 10
	KeySetLenMax      = 64 << 10
	PSKIDLenMax       = 64
	SuitesMax         = 8
	SuiteNameLenMax   = 32
	AlgorithmsMax     = 8
	PublicKeyLenMax   = 8 << 10
	SignatureLenMax   = 8 << 10
	ProofLenMax       = 8 << 10
	PinnedKeysMax     = 16
	SubjectLenMax     = 256
	SealedHeaderMax   = 8 << 10
	FrameLenMax       = 64 << 10
	InnerHeadersMax   = 64
	InnerLenMax       = 16 << 10

	WindowMsDefault = 300_000
	WindowMsMax     = 86_400_000
	// NativeWindowMsMax is wire 3's, whatever is configured: by it a client knows which request was too old before it left.
	NativeWindowMsMax = 300_000
)
