//! Bytes of one call that no handler has taken, in one piece of memory.

/// An empty inbox keeps no more memory than this.
const KEPT_BYTES_MAX: usize = 64 << 10;
/// Memory grows by an eighth: what is reserved beyond the bytes stays small.
const GROWTH_SHIFT: u32 = 3;

#[derive(Default)]
pub struct Inbox {
    bytes: Vec<u8>,
    taken: usize,
}

impl Inbox {
    pub fn len(&self) -> usize {
        self.bytes.len() - self.taken
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    pub fn push(&mut self, content: &[u8]) {
        if self.taken > 0 && self.bytes.capacity() - self.bytes.len() < content.len() {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        if self.bytes.capacity() - self.bytes.len() < content.len() {
            let more = content.len().max(self.bytes.len() >> GROWTH_SHIFT);
            self.bytes.reserve_exact(more);
        }
        self.bytes.extend_from_slice(content);
    }

    /// Takes the first `size` bytes, which are there, without the first `skipped` of them.
    pub fn take(&mut self, skipped: usize, size: usize) -> Vec<u8> {
        let end = self.taken + size;
        if end == self.bytes.len() && self.taken == 0 && size > KEPT_BYTES_MAX {
            let mut whole = std::mem::take(&mut self.bytes);
            whole.drain(..skipped);
            return whole;
        }
        let content = self.bytes[self.taken + skipped..end].to_vec();
        self.taken = end;
        if self.taken == self.bytes.len() {
            self.taken = 0;
            self.bytes.clear();
            if self.bytes.capacity() > KEPT_BYTES_MAX {
                self.bytes = Vec::new();
            }
        }
        content
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_the_order_in_which_they_came() {
        let mut inbox = Inbox::default();
        let mut next = (0..=255_u8).cycle();
        let mut first = (0..=255_u8).cycle();
        for size in [1, 7, 70_000, 16_384, 3, 200_000, 5] {
            let part: Vec<u8> = next.by_ref().take(size).collect();
            inbox.push(&part);
            let wanted = inbox.len() - inbox.len() / 3;
            let expected: Vec<u8> = first.by_ref().take(wanted).collect();
            assert_eq!(inbox.take(0, wanted), expected);
        }
        let left = inbox.len();
        let expected: Vec<u8> = first.by_ref().take(left).skip(left.min(2)).collect();
        assert_eq!(inbox.take(left.min(2), left), expected);
        assert_eq!((inbox.len(), inbox.bytes.is_empty()), (0, true));
    }
}
