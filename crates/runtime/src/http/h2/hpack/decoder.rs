//! The decoder of header blocks (RFC 7541 sections 3.2 and 6).

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use http::HeaderValue;

use super::field::{Field, Name};
use super::huffman;
use super::memo::{Literal, Memo};
use super::static_table;
use super::table::{Table, TableEntry};
use super::{Error, FIELD_OVERHEAD};

/// Size of a chunk that holds the values of several fields. A value keeps its whole chunk in memory, so chunks are small.
const CHUNK: usize = 1024;
/// Longest value that shares a chunk.
const CHUNK_VALUE_MAX: usize = CHUNK / 4;
/// Largest scratch buffer that stays between two blocks.
const SCRATCH_KEPT: usize = 4096;
/// Most dynamic table size updates at the beginning of a block (RFC 7541 section 4.2).
const UPDATES_MAX: usize = 2;

/// A field of a table, with the lengths by which the tables are bounded.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) field: Field,
    pub(super) name_len: u32,
    /// Length of name and value, plus [`FIELD_OVERHEAD`].
    pub(super) size: u32,
}

impl TableEntry for Entry {
    fn size(&self) -> usize {
        self.size as usize
    }
}

/// Decodes the header blocks that one side of a connection sends.
#[derive(Debug)]
pub struct Decoder {
    table: Table<Entry>,
    /// Largest table that the peer may choose.
    table_max: usize,
    /// Size at or below which the peer must set the table at the beginning of the next block.
    update_due: Option<usize>,
    memo: Memo,
    buffers: Buffers,
}

impl Decoder {
    /// Creates the decoder of a connection. `table_max` is the size that the peer may use before it acknowledges a SETTINGS
    /// frame: [`super::TABLE_SIZE_DEFAULT`].
    pub fn new(table_max: usize) -> Self {
        Decoder {
            table: Table::new(table_max),
            table_max,
            update_due: None,
            memo: Memo::default(),
            buffers: Buffers::default(),
        }
    }

    /// Changes the size that the peer may use. Call it when the peer acknowledges the SETTINGS frame with the size. After a
    /// reduction the next block must begin with a dynamic table size update (RFC 7541 section 4.2).
    pub fn set_table_max(&mut self, table_max: usize) {
        self.table_max = table_max;
        if table_max < self.table.capacity() {
            self.update_due = Some(self.update_due.map_or(table_max, |due| due.min(table_max)));
        }
    }

    /// Decodes a whole header block, and gives each field to `sink` with its size: name, value and [`FIELD_OVERHEAD`] together
    /// (RFC 9113 section 6.5.2). A sink that stores fields must bound the sum: a field of 4 KiB takes one byte of a block.
    ///
    /// # Errors
    /// [`Error`]; the connection ends, and the decoder cannot be used any more. The sink may have fields of the block already.
    pub fn decode(&mut self, block: &[u8], sink: &mut impl FnMut(Field, usize)) -> Result<(), Error> {
        self.visit(block, &mut |field, size| sink(field.into_owned(), size))
    }

    /// Decodes a block like [`Decoder::decode`], without a copy of the fields that a table holds: the sink copies those that it
    /// needs.
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    pub fn visit(&mut self, block: &[u8], sink: &mut impl FnMut(Cow<'_, Field>, usize)) -> Result<(), Error> {
        let mut input = Input(block);
        self.decode_updates(&mut input)?;
        while let Some(first) = input.next() {
            match first {
                0x80.. => {
                    let entry = self.entry(input.integer(first, 7)?)?;
                    sink(Cow::Borrowed(&entry.field), entry.size());
                }
                0x40.. => {
                    let entry = self.indexed_literal(&mut input, first)?;
                    sink(Cow::Borrowed(&entry.field), entry.size());
                    self.table.insert(entry);
                }
                0x20.. => return Err(Error::TableSizeMisplaced),
                0x10.. => {
                    let mut entry = self.literal(&mut input, first, 4, Storage::Message)?;
                    if let Field::Header(_, value) = &mut entry.field {
                        value.set_sensitive(true);
                    }
                    sink(Cow::Owned(entry.field), entry.size as usize);
                }
                _ => {
                    let entry = self.literal(&mut input, first, 4, Storage::Message)?;
                    sink(Cow::Owned(entry.field), entry.size as usize);
                }
            }
        }
        self.buffers.shrink();
        Ok(())
    }

    /// Releases memory that an idle connection does not need. The table keeps its entries.
    pub fn shrink(&mut self) {
        self.table.shrink();
        self.buffers.message = BytesMut::new();
        self.buffers.scratch = Vec::new();
    }

    /// Decodes the dynamic table size updates at the beginning of a block.
    fn decode_updates(&mut self, input: &mut Input<'_>) -> Result<(), Error> {
        let mut updates = 0;
        while let Some(first @ 0x20..=0x3f) = input.peek() {
            input.next();
            let size = input.integer(first, 5)?;
            updates += 1;
            if updates > UPDATES_MAX {
                return Err(Error::TableSizeMisplaced);
            }
            if size > self.table_max {
                return Err(Error::TableSizeAboveLimit);
            }
            self.table.set_capacity(size);
            self.update_due = self.update_due.filter(|due| size > *due);
        }
        if self.update_due.is_some() { Err(Error::TableSizeMissing) } else { Ok(()) }
    }

    fn entry(&self, index: usize) -> Result<&Entry, Error> {
        let position = index.checked_sub(1).ok_or(Error::UnknownIndex)?;
        let entry = match position.checked_sub(static_table::LEN) {
            None => static_table::ENTRIES.get(position),
            Some(age) => self.table.get(age),
        };
        entry.ok_or(Error::UnknownIndex)
    }

    /// Decodes a literal field that enters the table.
    fn indexed_literal(&mut self, input: &mut Input<'_>, first: u8) -> Result<Entry, Error> {
        let start = input.0;
        let name = input.integer(first, 6)?;
        // The index of an entry of the dynamic table is another one in each block.
        let literal = if (1..=static_table::LEN).contains(&name) {
            let (is_coded, text) = input.text()?;
            Literal::new(name, is_coded, text)
        } else {
            None
        };
        if let Some(entry) = literal.and_then(|literal| self.memo.get(literal)) {
            return Ok(entry.clone());
        }
        input.0 = start;
        let entry = self.literal(input, first, 6, Storage::Table)?;
        if let Some(literal) = literal
            && self.memo.is_repeated(literal)
            && let Field::Header(name, value) = &entry.field
            && let Ok(value) = HeaderValue::from_bytes(value.as_bytes())
        {
            self.memo.store(literal, Entry { field: Field::Header(name.clone(), value), ..entry });
        }
        Ok(entry)
    }

    /// Decodes a literal field, whose first octet has the index of the name in its `bits` lowest bits.
    fn literal(&mut self, input: &mut Input<'_>, first: u8, bits: u32, storage: Storage) -> Result<Entry, Error> {
        let (name, name_len) = match input.integer(first, bits)? {
            0 => {
                let text = input.string(&mut self.buffers.scratch)?;
                (Name::parse(text), text.len() as u32)
            }
            index => {
                let entry = self.entry(index)?;
                (entry.field.name(), entry.name_len)
            }
        };
        let value = input.string(&mut self.buffers.scratch)?;
        let chunk = match storage {
            Storage::Table => &mut self.buffers.table,
            Storage::Message => &mut self.buffers.message,
        };
        // Both lengths are below 2^28, times 8/5.
        let size = (name_len as usize + value.len() + FIELD_OVERHEAD) as u32;
        Ok(Entry { field: Field::parse(name, value, |value| copy_to_chunk(chunk, value)), name_len, size })
    }

    #[cfg(test)]
    pub(super) fn memo(&self) -> &Memo {
        &self.memo
    }

    #[cfg(test)]
    pub(super) fn table(&self) -> &Table<Entry> {
        &self.table
    }
}

/// The memory of a literal's value.
#[derive(Clone, Copy, Debug)]
enum Storage {
    Table,
    Message,
}

#[derive(Debug, Default)]
struct Buffers {
    /// The string that was Huffman-decoded last. Its length only grows within a block.
    scratch: Vec<u8>,
    /// Chunk of the values that enter the table. Nothing else is in it: the table evicts in the order of insertion, so its
    /// entries keep hardly more chunks than they fill, whatever a peer sends between them.
    table: BytesMut,
    /// Chunk of the other values.
    message: BytesMut,
}

impl Buffers {
    fn shrink(&mut self) {
        if self.scratch.len() > SCRATCH_KEPT {
            self.scratch = Vec::new();
        }
    }
}

fn copy_to_chunk(chunk: &mut BytesMut, value: &[u8]) -> Bytes {
    if value.is_empty() || value.len() > CHUNK_VALUE_MAX {
        return Bytes::copy_from_slice(value);
    }
    // A chunk whose values are all gone is used again.
    if !chunk.try_reclaim(value.len()) {
        *chunk = BytesMut::with_capacity(CHUNK);
    }
    chunk.extend_from_slice(value);
    chunk.split().freeze()
}

/// The rest of a header block.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Decodes an integer (RFC 7541 section 5.1) whose prefix is the `bits` lowest bits of `first`.
    fn integer(&mut self, first: u8, bits: u32) -> Result<usize, Error> {
        let prefix_max = (1_u32 << bits) - 1;
        let mut value = u32::from(first) & prefix_max;
        if value < prefix_max {
            return Ok(value as usize);
        }
        for shift in [0, 7, 14, 21] {
            let octet = self.next().ok_or(Error::Truncated)?;
            value += u32::from(octet & 0x7f) << shift;
            if octet < 0x80 {
                return if value < 1 << 28 { Ok(value as usize) } else { Err(Error::IntegerOverflow) };
            }
        }
        Err(Error::IntegerOverflow)
    }

    /// Returns the encoded text of a string (RFC 7541 section 5.2), and whether it is Huffman-coded.
    fn text(&mut self) -> Result<(bool, &'a [u8]), Error> {
        let first = self.next().ok_or(Error::Truncated)?;
        let len = self.integer(first, 7)?;
        let (text, rest) = self.0.split_at_checked(len).ok_or(Error::Truncated)?;
        self.0 = rest;
        Ok((first >= 0x80, text))
    }

    /// Decodes a string (RFC 7541 section 5.2); `scratch` holds it if it is Huffman-coded.
    fn string<'b>(&mut self, scratch: &'b mut Vec<u8>) -> Result<&'b [u8], Error>
    where
        'a: 'b,
    {
        let (is_coded, text) = self.text()?;
        if is_coded { huffman::decode(text, scratch).ok_or(Error::Huffman) } else { Ok(text) }
    }
}
