//! The Huffman code of strings (RFC 7541 section 5.2 and appendix B).
//!
//! The code is canonical: codes of the same length follow each other in the order of their symbols, and longer codes follow
//! shorter ones. So the lengths are all of appendix B that is written here; the codes and the tables of the decoder are derived
//! from them at compile time.

use bytes::BytesMut;

/// The number of symbols: all octets, and EOS.
const SYMBOLS: usize = 257;
/// The symbol that no string may contain.
const EOS: usize = 256;
/// Length of the longest code, in bits.
const LEN_MAX: usize = 30;

/// Lengths of the codes in bits, by symbol.
#[rustfmt::skip]
static LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
     6, 10, 10, 12, 13,  6,  8, 11, 10, 10,  8, 11,  8,  6,  6,  6,  5,  5,  5,  6,  6,  6,  6,  6,  6,  6,  7,  8, 15,  6, 12, 10,
    13,  6,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  8,  7,  8, 13, 19, 13, 14,  6,
    15,  5,  6,  5,  6,  5,  6,  6,  6,  5,  7,  7,  6,  6,  6,  5,  6,  7,  6,  5,  5,  6,  7,  7,  7,  7,  7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// Codes of all octets, with their lengths.
static CODES: [Code; 256] = CANONICAL.codes();
const CANONICAL: Canonical = Canonical::new();
static STEPS: [Step; 1 << STEP_BITS] = build_steps();
static RANGES: [Range; LEN_MAX - STEP_BITS] = CANONICAL.ranges();
static ORDER: [u16; SYMBOLS] = CANONICAL.order;

/// Bits of one look-up of the decoder: enough for two of the short codes, and few enough for the table to stay in the cache.
const STEP_BITS: usize = 11;
/// Look-ups for which a refilled window has bits: it has at least 56.
const STEPS_PER_REFILL: usize = 5;

#[derive(Clone, Copy)]
struct Code {
    bits: u32,
    len: u8,
}

/// The result of a look-up: the symbols whose codes begin the window. None of them if the first code is longer than the window.
#[derive(Clone, Copy)]
struct Step {
    symbols: [u8; 2],
    count: u8,
    /// Bits of both codes together.
    len: u8,
}

/// The codes of one length.
#[derive(Clone, Copy)]
struct Range {
    /// The first code, and the first one after the last; left-aligned in 32 bits.
    start: u32,
    end: u32,
    /// Position of the first code's symbol in [`ORDER`].
    position: u16,
}

/// The canonical code, by length.
struct Canonical {
    /// Symbols in the order of their codes.
    order: [u16; SYMBOLS],
    /// Number of codes, by length.
    counts: [u16; LEN_MAX + 1],
    /// First code of each length, in order.
    firsts: [u32; LEN_MAX + 1],
}

impl Canonical {
    const fn new() -> Self {
        let mut canonical = Canonical { order: [0; SYMBOLS], counts: [0; LEN_MAX + 1], firsts: [0; LEN_MAX + 1] };
        let mut next_code = 0;
        let mut next_position = 0;
        let mut len = 1;
        while len <= LEN_MAX {
            next_code <<= 1;
            canonical.firsts[len] = next_code;
            let mut symbol = 0;
            while symbol < SYMBOLS {
                if LENGTHS[symbol] as usize == len {
                    canonical.order[next_position] = symbol as u16;
                    canonical.counts[len] += 1;
                    next_position += 1;
                    next_code += 1;
                }
                symbol += 1;
            }
            len += 1;
        }
        canonical
    }

    const fn codes(&self) -> [Code; 256] {
        let mut codes = [Code { bits: 0, len: 0 }; 256];
        let mut next = self.firsts;
        let mut symbol = 0;
        while symbol < 256 {
            let len = LENGTHS[symbol];
            codes[symbol] = Code { bits: next[len as usize], len };
            next[len as usize] += 1;
            symbol += 1;
        }
        codes
    }

    /// Returns the ranges of the codes that are longer than a look-up.
    const fn ranges(&self) -> [Range; LEN_MAX - STEP_BITS] {
        let mut ranges = [Range { start: 0, end: 0, position: 0 }; LEN_MAX - STEP_BITS];
        let mut position = 0;
        let mut len = 1;
        while len <= LEN_MAX {
            if len > STEP_BITS {
                let start = self.firsts[len] << (32 - len);
                // The end of the last range does not fit: it is one more than the largest window.
                let end = ((self.firsts[len] + self.counts[len] as u32) as u64) << (32 - len);
                let end = if end > u32::MAX as u64 { u32::MAX } else { end as u32 };
                ranges[len - STEP_BITS - 1] = Range { start, end, position };
            }
            position += self.counts[len];
            len += 1;
        }
        ranges
    }
}

const fn build_steps() -> [Step; 1 << STEP_BITS] {
    let codes = CANONICAL.codes();
    let mut steps = [Step { symbols: [0; 2], count: 0, len: 0 }; 1 << STEP_BITS];
    let mut symbol = 0;
    while symbol < 256 {
        let Code { bits, len } = codes[symbol];
        if len as usize <= STEP_BITS {
            let spread = STEP_BITS - len as usize;
            let mut window = (bits as usize) << spread;
            let end = window + (1 << spread);
            while window < end {
                steps[window] = Step { symbols: [symbol as u8, 0], count: 1, len };
                window += 1;
            }
        }
        symbol += 1;
    }
    let singles = steps;
    let mut window = 0;
    while window < steps.len() {
        let first = singles[window];
        let second = singles[(window << first.len) & (steps.len() - 1)];
        let len = first.len + second.len;
        if first.count > 0 && second.count > 0 && len as usize <= STEP_BITS {
            steps[window] = Step { symbols: [first.symbols[0], second.symbols[0]], count: 2, len };
        }
        window += 1;
    }
    steps
}

/// Returns the length in octets of the code of `text`.
pub(super) fn encoded_len(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|octet| usize::from(LENGTHS[usize::from(*octet)])).sum();
    bits.div_ceil(8)
}

/// Appends the code of `text`, which has [`encoded_len`] octets `len`.
pub(super) fn encode(text: &[u8], len: usize, out: &mut BytesMut) {
    let start = out.len();
    out.resize(start + len, 0);
    let mut rest = out.get_mut(start..).unwrap_or_default();
    let mut window = 0_u64;
    let mut window_len = 0_u32;
    for octet in text {
        let code = CODES[usize::from(*octet)];
        window = (window << code.len) | u64::from(code.bits);
        window_len += u32::from(code.len);
        if window_len >= 32 {
            window_len -= 32;
            let Some((chunk, tail)) = rest.split_first_chunk_mut() else { return };
            *chunk = ((window >> window_len) as u32).to_be_bytes();
            rest = tail;
        }
    }
    // The padding is the beginning of the code of EOS, which is all ones.
    let last = (window << (32 - window_len)) as u32 | (u32::MAX.checked_shr(window_len).unwrap_or(0));
    for (octet, value) in rest.iter_mut().zip(last.to_be_bytes()) {
        *octet = value;
    }
}

/// Decodes `input` to the beginning of `out`, which grows if that is necessary: to 8/5 of the input. Returns the text, or
/// nothing if a code is EOS or incomplete, or if the padding is longer than 7 bits or not all ones.
pub(super) fn decode<'a>(input: &[u8], out: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    // The shortest code has 5 bits; each look-up writes two octets, of which one may be void.
    let bound = input.len() * 8 / 5 + 2;
    if out.len() < bound {
        out.resize(bound, 0);
    }
    let mut output = Output { text: out, len: 0 };
    let mut window = Window { bits: 0, len: 0, input };
    while window.refill() {
        for _ in 0..STEPS_PER_REFILL {
            let step = window.step();
            if step.count == 0 {
                if window.len as usize >= LEN_MAX {
                    window.decode_long(&mut output)?;
                }
                break;
            }
            output.push(step)?;
            window.skip(u32::from(step.len));
        }
    }
    window.decode_end(&mut output)?;
    let len = output.len;
    out.get(..len)
}

struct Output<'a> {
    text: &'a mut [u8],
    len: usize,
}

impl Output<'_> {
    fn push(&mut self, step: Step) -> Option<()> {
        self.text.get_mut(self.len..)?.first_chunk_mut().map(|slot| *slot = step.symbols)?;
        self.len += usize::from(step.count);
        Some(())
    }
}

/// The next bits of the input.
struct Window<'a> {
    /// Left-aligned. Bits after `len` are valid, or zero.
    bits: u64,
    len: u32,
    input: &'a [u8],
}

impl Window<'_> {
    /// Fills the window with at least 56 bits. Returns false if the input has fewer than 8 more octets.
    fn refill(&mut self) -> bool {
        let Some(octets) = self.input.first_chunk() else { return false };
        // Bits that do not fill an octet are read again with the next refill.
        self.bits |= u64::from_be_bytes(*octets) >> self.len;
        let octets = (63 - self.len) >> 3;
        self.input = self.input.get(octets as usize..).unwrap_or_default();
        self.len += octets * 8;
        true
    }

    fn step(&self) -> Step {
        STEPS[(self.bits >> (64 - STEP_BITS)) as usize]
    }

    fn skip(&mut self, len: u32) {
        self.bits <<= len;
        self.len -= len;
    }

    /// Decodes a code that is longer than a look-up.
    fn decode_long(&mut self, output: &mut Output<'_>) -> Option<()> {
        let bits = (self.bits >> 32) as u32;
        let position = RANGES.iter().position(|range| bits < range.end)?;
        let (range, len) = (RANGES.get(position)?, position + STEP_BITS + 1);
        let offset = (bits - range.start) >> (32 - len);
        let symbol = *ORDER.get(usize::from(range.position) + offset as usize)?;
        let len = len as u32;
        if len > self.len || usize::from(symbol) == EOS {
            return None;
        }
        output.push(Step { symbols: [symbol as u8, 0], count: 1, len: 0 })?;
        self.skip(len);
        Some(())
    }

    /// Decodes the codes of the last octets, and checks the padding.
    fn decode_end(mut self, output: &mut Output<'_>) -> Option<()> {
        // What the last refill left beyond `len` is read again.
        self.bits &= !(u64::MAX.checked_shr(self.len).unwrap_or(0));
        loop {
            while self.len <= 56
                && let Some((octet, rest)) = self.input.split_first()
            {
                self.bits |= u64::from(*octet) << (56 - self.len);
                self.len += 8;
                self.input = rest;
            }
            if self.len < 8 && self.is_padding() {
                return Some(());
            }
            let mut step = self.step();
            if step.count == 0 {
                self.decode_long(output)?;
                continue;
            }
            if u32::from(step.len) > self.len {
                // The second symbol, or both, are made of bits after the end.
                step.count = 1;
                step.len = LENGTHS[usize::from(step.symbols[0])];
                if u32::from(step.len) > self.len {
                    return None;
                }
            }
            output.push(step)?;
            self.skip(u32::from(step.len));
        }
    }

    fn is_padding(&self) -> bool {
        self.bits == !(u64::MAX.checked_shr(self.len).unwrap_or(0))
    }
}
