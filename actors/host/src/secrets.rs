//! How the secrets of a volume stand in its settings record: AES-128-GCM under the MD5 of the volume's UUID
//! text; base64 of nonce (12 bytes), ciphertext and tag (16 bytes). Source: volume format, settings record.
//! This hides them from a glance, not from somebody who has the record: the key stands beside them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use zest_types::volume::Settings;

/// What stands where a secret was taken out.
pub const REMOVED: &str = "removed";

/// Why secrets can't be hidden or shown.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SecretError {
    /// Taken out, as a dump does.
    #[error("{0} was removed from the settings: give it again with `zest format` and the same name")]
    Removed(&'static str),
    /// Not what this volume wrote.
    #[error("{0} in the settings can't be decrypted: give it again with `zest format` and the same name")]
    Damaged(&'static str),
    /// The volume's cipher is not built in.
    #[error("the secrets of the volume use {0}, which this version can't do yet")]
    Unsupported(String),
    /// The system gave no random numbers.
    #[error("the system has no random numbers to give")]
    Random,
}

/// Opens the private key of an encrypted volume, where that is protected.
const PASSPHRASE: &str = "JFS_RSA_PASSPHRASE";

/// The passphrase of private keys, from the environment.
#[must_use]
pub fn passphrase() -> Option<String> {
    std::env::var_os(PASSPHRASE).map(|text| text.to_string_lossy().into_owned())
}

fn key(uuid: &str) -> Result<LessSafeKey, SecretError> {
    let digest = Md5::digest(uuid.as_bytes());
    UnboundKey::new(&AES_128_GCM, &digest).map(LessSafeKey::new).map_err(|_| SecretError::Random)
}

fn seal(text: &str, uuid: &str) -> Result<String, SecretError> {
    let mut nonce = [0; NONCE_LEN];
    SystemRandom::new().fill(&mut nonce).map_err(|_| SecretError::Random)?;
    let mut body = text.as_bytes().to_vec();
    key(uuid)?
        .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut body)
        .map_err(|_| SecretError::Random)?;
    let mut whole = nonce.to_vec();
    whole.append(&mut body);
    Ok(STANDARD.encode(whole))
}

fn open(text: &str, uuid: &str, what: &'static str) -> Result<String, SecretError> {
    if text == REMOVED {
        return Err(SecretError::Removed(what));
    }
    let damaged = SecretError::Damaged(what);
    let Ok(whole) = STANDARD.decode(text) else { return Err(damaged) };
    let Some((nonce, body)) = whole.split_at_checked(NONCE_LEN) else { return Err(damaged) };
    let Ok(nonce) = Nonce::try_assume_unique_for_key(nonce) else { return Err(damaged) };
    let mut body = body.to_vec();
    match key(uuid)?.open_in_place(nonce, Aad::empty(), &mut body) {
        Ok(plain) => String::from_utf8(plain.to_vec()).map_err(|_| damaged),
        Err(_) => Err(damaged),
    }
}

type Change<'a> = &'a dyn Fn(&str, &'static str) -> Result<String, SecretError>;

fn change(settings: &mut Settings, how: Change<'_>) -> Result<(), SecretError> {
    let secrets = [
        ("the secret key", &mut settings.secret_key),
        ("the session token", &mut settings.session_token),
        ("the encryption key", &mut settings.encrypt_key),
    ];
    for (what, secret) in secrets {
        if !secret.is_empty() {
            *secret = how(secret, what)?;
        }
    }
    Ok(())
}

fn check_cipher(settings: &Settings) -> Result<(), SecretError> {
    match settings.encrypt_algo.as_str() {
        "sm4gcm" => Err(SecretError::Unsupported("sm4gcm".into())),
        _ => Ok(()),
    }
}

/// Turns plain secrets into ciphertext; settings without secrets, or hidden already, stay as they are.
pub fn hide(settings: &mut Settings) -> Result<(), SecretError> {
    let none = [&settings.secret_key, &settings.session_token, &settings.encrypt_key];
    if settings.key_encrypted || none.iter().all(|s| s.is_empty()) {
        return Ok(());
    }
    check_cipher(settings)?;
    let uuid = settings.uuid.clone();
    change(settings, &|text, _| seal(text, &uuid))?;
    settings.key_encrypted = true;
    Ok(())
}

/// Turns ciphertext into plain secrets.
pub fn show(settings: &mut Settings) -> Result<(), SecretError> {
    if !settings.key_encrypted {
        return Ok(());
    }
    check_cipher(settings)?;
    let uuid = settings.uuid.clone();
    change(settings, &|text, what| open(text, &uuid, what))?;
    settings.key_encrypted = false;
    Ok(())
}

/// Puts [`REMOVED`] in place of every secret, and of the access key that goes with one, for output.
pub fn mask(settings: &mut Settings) {
    let Settings { access_key, secret_key, session_token, encrypt_key, .. } = settings;
    for secret in [access_key, secret_key, session_token, encrypt_key] {
        if !secret.is_empty() {
            *secret = REMOVED.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "11111111-2222-3333-4444-555555555555";

    #[test]
    fn what_the_format_sealed_is_opened() {
        let uuid = "11111111-2222-4333-8444-555555555555";
        let sealed = "AAECAwQFBgcICQoL73JF9nh+k9Cwz/a+zHPTDB4fDheg3Vzq";
        assert_eq!(open(sealed, uuid, "the secret key").as_deref(), Ok("mysecret"));
    }

    #[test]
    fn the_key_is_that_of_the_format() {
        let hex: String = Md5::digest(UUID.as_bytes()).iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "c6426b96020dfc0cac3adc1cf3952797");
    }

    #[test]
    fn secrets_come_back_and_nothing_else_is_touched() {
        let mut settings = Settings::new("vol", UUID, "s3", "http://h/b");
        settings.access_key = "id".into();
        settings.secret_key = "a secret".into();
        let plain = settings.clone();
        hide(&mut settings).unwrap();
        assert!(settings.key_encrypted && settings.secret_key != "a secret" && settings.access_key == "id");
        let hidden = settings.clone();
        hide(&mut settings).unwrap();
        assert_eq!(settings, hidden, "hiding twice would lose the secret");
        show(&mut settings).unwrap();
        assert_eq!(settings, plain);
        settings = hidden;
        settings.uuid = "another".into();
        assert_eq!(show(&mut settings), Err(SecretError::Damaged("the secret key")));
        settings.secret_key = REMOVED.into();
        assert_eq!(show(&mut settings), Err(SecretError::Removed("the secret key")));
    }

    #[test]
    fn settings_without_secrets_stay_as_they_are() {
        let mut settings = Settings::new("vol", UUID, "file", "/x/");
        hide(&mut settings).unwrap();
        assert!(!settings.key_encrypted);
        settings.access_key = "id".into();
        mask(&mut settings);
        assert_eq!((settings.access_key.as_str(), settings.secret_key.as_str()), (REMOVED, ""));
    }
}
