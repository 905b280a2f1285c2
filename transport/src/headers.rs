//! gRPC's use of HTTP headers: deadlines, metadata, status.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

/// Binary metadata is sent without padding, and accepted with it and without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
/// What a status message may not have as it is.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');
const BINARY: &str = "-bin";
/// A deadline is at most eight digits and a unit.
const TIMEOUT_DIGITS_MAX: usize = 8;
/// Headers that belong to the protocol: a handler does not see them.
const OF_PROTOCOL: [&str; 5] =
    ["te", "content-type", "grpc-timeout", "grpc-encoding", "grpc-accept-encoding"];

pub enum Value {
    Text(String),
    Binary(Vec<u8>),
}

/// The deadline of a call in seconds from now. `None` if there is none; `Err` if it is not one.
pub fn timeout_seconds(headers: &HeaderMap) -> Result<Option<f64>, ()> {
    let Some(value) = headers.get("grpc-timeout") else { return Ok(None) };
    let text = value.to_str().map_err(|_| ())?;
    let (digits, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or(())?;
    if digits.is_empty()
        || digits.len() > TIMEOUT_DIGITS_MAX
        || !digits.bytes().all(|each| each.is_ascii_digit())
    {
        return Err(());
    }
    let count: f64 = digits.parse().map_err(|_| ())?;
    let unit_seconds = match unit {
        "H" => 3600.0,
        "M" => 60.0,
        "S" => 1.0,
        "m" => 1e-3,
        "u" => 1e-6,
        "n" => 1e-9,
        _ => return Err(()),
    };
    Ok(Some(count * unit_seconds))
}

/// The call's metadata; a value that is not what its name says is `Err`.
pub fn metadata(headers: &HeaderMap) -> Result<Vec<(String, Value)>, ()> {
    let mut found = Vec::new();
    for (name, value) in headers {
        let name = name.as_str();
        if OF_PROTOCOL.contains(&name) {
            continue;
        }
        if name.ends_with(BINARY) {
            // Several values of one name may stand in one header.
            for part in value.as_bytes().split(|each| *each == b',') {
                let decoded = BASE64.decode(part.trim_ascii()).map_err(|_| ())?;
                found.push((name.to_owned(), Value::Binary(decoded)));
            }
        } else {
            let text = value.to_str().map_err(|_| ())?;
            found.push((name.to_owned(), Value::Text(text.to_owned())));
        }
    }
    Ok(found)
}

/// Adds metadata of a handler. `Err` says which name or value no header can have.
pub fn add_metadata(headers: &mut HeaderMap, name: &str, value: &[u8]) -> Result<(), String> {
    let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("{name:?}"))?;
    let shown = if name.ends_with(BINARY) {
        HeaderValue::from_str(&BASE64.encode(value)).map_err(|_| name.to_owned())?
    } else {
        HeaderValue::from_bytes(value).map_err(|_| name.to_owned())?
    };
    headers.append(header, shown);
    Ok(())
}

/// The size of headers, as HTTP/2 counts it.
pub fn list_size(headers: &HeaderMap) -> usize {
    const BYTES_MORE: usize = 32;
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + BYTES_MORE).sum()
}

/// The headers of a call's end.
pub fn status(code: u32, message: &str) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(4);
    headers.insert("grpc-status", HeaderValue::from(code));
    if !message.is_empty() {
        let escaped = utf8_percent_encode(message, ESCAPED).to_string();
        if let Ok(value) = HeaderValue::from_str(&escaped) {
            headers.insert("grpc-message", value);
        }
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeout(text: &str) -> Result<Option<f64>, ()> {
        let mut headers = HeaderMap::new();
        headers.insert("grpc-timeout", HeaderValue::from_str(text).unwrap());
        timeout_seconds(&headers)
    }

    #[test]
    fn deadlines_have_digits_and_a_unit() {
        assert_eq!(timeout("250m"), Ok(Some(0.25)));
        assert_eq!(timeout("99999999H"), Ok(Some(99_999_999.0 * 3600.0)));
        for wrong in ["", "S", "5", "-5S", "+5S", "5 S", "123456789S", "5s", "1e3S", "5\u{e9}"] {
            assert_eq!(timeout(wrong), Err(()), "{wrong:?}");
        }
    }

    #[test]
    fn binary_metadata_comes_back() {
        for size in 0..5 {
            let value: Vec<u8> = (0..size).map(|each| 250 + each).collect();
            let mut headers = HeaderMap::new();
            add_metadata(&mut headers, "x-bin", &value).unwrap();
            match metadata(&headers).unwrap().pop() {
                Some((_, Value::Binary(found))) => assert_eq!(found, value),
                _ => panic!("no binary value"),
            }
        }
    }

    #[test]
    fn a_status_message_is_escaped() {
        let headers = status(3, "100 %\n\u{e9}");
        assert_eq!(headers["grpc-message"], "100 %25%0A%C3%A9");
        assert_eq!(headers["grpc-status"], "3");
    }
}
