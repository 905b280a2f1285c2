//! Frames that cost a client nothing and a server something are counted before h2 reads them.

use std::time::{Duration, Instant};

const PREFACE_BYTES: usize = 24;
const HEAD_BYTES: usize = 9;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const ACK: u8 = 1;
const STREAM_MASK: u32 = 0x7fff_ffff;
/// Between pings of a client without a call that may not ping then, as gRPC's core has it.
const WITHOUT_CALLS: Duration = Duration::from_secs(2 * 3600);
/// A client may change its settings this often in a minute.
const SETTINGS_MAX: u32 = 100;
const SETTINGS_TIME: Duration = Duration::from_secs(60);

/// How often a client may ping while the server sends it nothing.
pub struct PingPolicy {
    pub interval: Duration,
    /// Pings that come too early, and are forgiven. 0 forgives all.
    pub strikes_max: u32,
    pub permits_without_calls: bool,
}

pub struct FrameWatch {
    policy: PingPolicy,
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    skipped_bytes: usize,
    pub last_stream: u32,
    last_ping: Option<Instant>,
    strikes: u32,
    settings: u32,
    settings_since: Instant,
}

impl FrameWatch {
    pub fn new(policy: PingPolicy) -> Self {
        Self {
            policy,
            head: [0; HEAD_BYTES],
            head_bytes: 0,
            skipped_bytes: PREFACE_BYTES,
            last_stream: 0,
            last_ping: None,
            strikes: 0,
            settings: 0,
            settings_since: Instant::now(),
        }
    }

    /// The server has sent something of a call: early pings are forgiven.
    pub fn note_sent(&mut self) {
        self.strikes = 0;
        self.last_ping = None;
    }

    /// Looks at bytes that have arrived. Returns why the client is sent away, if it is.
    pub fn look(&mut self, mut content: &[u8], has_calls: bool) -> Option<&'static str> {
        while !content.is_empty() {
            if self.skipped_bytes > 0 {
                let size = self.skipped_bytes.min(content.len());
                self.skipped_bytes -= size;
                content = &content[size..];
                continue;
            }
            let size = (HEAD_BYTES - self.head_bytes).min(content.len());
            self.head[self.head_bytes..self.head_bytes + size].copy_from_slice(&content[..size]);
            self.head_bytes += size;
            content = &content[size..];
            if self.head_bytes == HEAD_BYTES {
                self.head_bytes = 0;
                if let Some(reason) = self.note_frame(has_calls) {
                    return Some(reason);
                }
            }
        }
        None
    }

    fn note_frame(&mut self, has_calls: bool) -> Option<&'static str> {
        let [a, b, c, kind, flags, stream @ ..] = self.head;
        self.skipped_bytes = u32::from_be_bytes([0, a, b, c]) as usize;
        match kind {
            HEADERS => {
                let stream = u32::from_be_bytes(stream) & STREAM_MASK;
                self.last_stream = self.last_stream.max(stream);
                None
            }
            PING if flags & ACK == 0 => {
                self.pings_too_often(has_calls).then_some("too_many_pings")
            }
            SETTINGS if flags & ACK == 0 => {
                self.changes_settings_too_often().then_some("too_many_settings")
            }
            _ => None,
        }
    }

    fn pings_too_often(&mut self, has_calls: bool) -> bool {
        let now = Instant::now();
        let interval = if has_calls || self.policy.permits_without_calls {
            self.policy.interval
        } else {
            WITHOUT_CALLS
        };
        let before = self.last_ping.replace(now);
        if before.is_none_or(|before| now - before >= interval) {
            return false;
        }
        self.strikes += 1;
        self.policy.strikes_max > 0 && self.strikes > self.policy.strikes_max
    }

    fn changes_settings_too_often(&mut self) -> bool {
        let now = Instant::now();
        if now - self.settings_since > SETTINGS_TIME {
            self.settings = 0;
            self.settings_since = now;
        }
        self.settings += 1;
        self.settings > SETTINGS_MAX
    }
}

/// A GOAWAY frame that says why, which h2 cannot write.
pub fn go_away(last_stream: u32, code: u32, reason: &str) -> Vec<u8> {
    const KIND: u8 = 7;
    let mut frame = Vec::with_capacity(HEAD_BYTES + 8 + reason.len());
    frame.extend_from_slice(&(8 + reason.len() as u32).to_be_bytes()[1..]);
    frame.extend_from_slice(&[KIND, 0, 0, 0, 0, 0]);
    frame.extend_from_slice(&last_stream.to_be_bytes());
    frame.extend_from_slice(&code.to_be_bytes());
    frame.extend_from_slice(reason.as_bytes());
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(interval: Duration, strikes_max: u32, permits_without_calls: bool) -> FrameWatch {
        let mut watch =
            FrameWatch::new(PingPolicy { interval, strikes_max, permits_without_calls });
        assert_eq!(watch.look(&[0; PREFACE_BYTES], false), None);
        watch
    }

    fn ping() -> Vec<u8> {
        [&[0, 0, 8, PING, 0, 0, 0, 0, 0][..], &[7; 8]].concat()
    }

    #[test]
    fn the_first_ping_and_two_strikes_are_forgiven() {
        let mut watch = watch(Duration::from_secs(10), 2, true);
        for _ in 0..3 {
            assert_eq!(watch.look(&ping(), false), None);
        }
        assert_eq!(watch.look(&ping(), false), Some("too_many_pings"));
    }

    #[test]
    fn what_the_server_sends_forgives_pings() {
        let mut watch = watch(Duration::from_secs(10), 2, true);
        for _ in 0..100 {
            assert_eq!(watch.look(&ping(), true), None);
            watch.note_sent();
        }
    }

    #[test]
    fn without_a_limit_of_strikes_or_with_time_between_no_ping_is_too_early() {
        for mut watch in [watch(Duration::from_secs(10), 0, true), watch(Duration::ZERO, 2, true)] {
            for _ in 0..100 {
                assert_eq!(watch.look(&ping(), true), None);
            }
        }
        let mut watch = watch(Duration::ZERO, 2, false);
        assert_eq!(watch.look(&ping().repeat(3), false), None);
        assert_eq!(watch.look(&ping(), false), Some("too_many_pings"));
    }

    #[test]
    fn frames_are_found_however_bytes_are_cut() {
        let mut watch = watch(Duration::from_secs(10), 2, true);
        let headers = [&[0, 0, 3, HEADERS, 4, 0x80, 0, 0, 5][..], &[PING; 3]].concat();
        let bytes = [headers, ping().repeat(4)].concat();
        let told: Vec<_> = bytes.iter().filter_map(|each| watch.look(&[*each], true)).collect();
        assert_eq!((told, watch.last_stream), (vec!["too_many_pings"], 5));
    }

    #[test]
    fn settings_may_change_a_hundred_times_a_minute() {
        let mut watch = watch(Duration::from_secs(10), 2, true);
        let settings = [0, 0, 0, SETTINGS, 0, 0, 0, 0, 0];
        assert_eq!(watch.look(&settings.repeat(100), true), None);
        let answers = [0, 0, 0, SETTINGS, ACK, 0, 0, 0, 0];
        assert_eq!(watch.look(&answers.repeat(1000), true), None);
        assert_eq!(watch.look(&settings, true), Some("too_many_settings"));
    }
}
