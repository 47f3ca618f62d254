//! The settings file: every setting of Lite Gateway as a line for a shell, and the paths of the client's files.

use std::path::Path;

use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

use super::rotate::Leaf;
use super::{CA_CERT, CertsError, fault};

/// Names of the passwords of the PKCS#12 files.
const SERVER_PASSWORD: &str = "LITEGATEWAY_Proxy__ServerCertificatePassword";
const CLIENT_PASSWORD: &str = "CLIENT_PFX_PASSWORD";

/// Returns the file's text for a folder, whose path is absolute.
pub(super) fn text(folder: &Path, password: &SecretString) -> Result<Zeroizing<String>, CertsError> {
    let file = |name: &str| -> Result<String, CertsError> {
        let path = folder.join(name);
        let text = path.to_str().filter(|path| !path.contains(char::is_control));
        Ok(text.ok_or_else(|| fault(format!("{}: the path is not plain text", path.display())))?.to_owned())
    };
    let word = password.expose_secret();
    let lines = [
        ("LITEGATEWAY_Proxy__EnableHttp", "true".into()),
        ("LITEGATEWAY_Proxy__EnableHttps", "true".into()),
        ("LITEGATEWAY_Proxy__EnableMtls", "true".into()),
        ("LITEGATEWAY_Proxy__HttpPort", "8080".into()),
        ("LITEGATEWAY_Proxy__HttpsPort", "8443".into()),
        ("LITEGATEWAY_Proxy__MtlsPort", "9443".into()),
        ("LITEGATEWAY_Proxy__SleepDurationMs", "5000".into()),
        ("LITEGATEWAY_Proxy__ServerCertificatePath", file(Leaf::Server.pfx())?),
        (SERVER_PASSWORD, word.to_owned()),
        ("LITEGATEWAY_Proxy__TrustedCaPath", file(CA_CERT)?),
        ("LITEGATEWAY_Proxy__OutboundClientCertificatePath", file(Leaf::Client.pfx())?),
        ("LITEGATEWAY_Proxy__OutboundClientCertificatePassword", word.to_owned()),
        ("LITEGATEWAY_Proxy__UpstreamUrl", String::new()),
        ("LITEGATEWAY_Proxy__PassConnectionClose", "false".into()),
        ("CLIENT_CA_CERT", file(CA_CERT)?),
        ("CLIENT_CERT_PEM", file(Leaf::Client.cert())?),
        ("CLIENT_KEY_PEM", file(Leaf::Client.key())?),
        ("CLIENT_PFX", file(Leaf::Client.pfx())?),
        (CLIENT_PASSWORD, word.to_owned()),
    ];
    let mut out = Zeroizing::new(String::with_capacity(4096));
    for (name, value) in lines {
        let value = Zeroizing::new(value);
        out.push_str("export ");
        out.push_str(name);
        out.push_str("=\"");
        for c in value.chars() {
            if matches!(c, '"' | '\\' | '$' | '`') {
                out.push('\\');
            }
            out.push(c);
        }
        out.push_str("\"\n");
    }
    Ok(out)
}

/// Returns the password of a leaf's PKCS#12 file from the settings.
pub(super) fn password(text: &str, leaf: Leaf) -> Option<SecretString> {
    let name = match leaf {
        Leaf::Server => SERVER_PASSWORD,
        Leaf::Client => CLIENT_PASSWORD,
    };
    let line = text.lines().find_map(|line| line.strip_prefix("export ")?.strip_prefix(name)?.strip_prefix('='))?;
    let inner = match line.strip_prefix('"').and_then(|line| line.strip_suffix('"')) {
        Some(inner) => inner,
        // As other programs may have written it.
        None => return Some(SecretString::from(line.trim_matches('\'').to_owned())),
    };
    let mut out = Zeroizing::new(String::with_capacity(inner.len()));
    let mut is_escaped = false;
    for c in inner.chars() {
        if c == '\\' && !is_escaped {
            is_escaped = true;
        } else {
            is_escaped = false;
            out.push(c);
        }
    }
    Some(SecretString::from(out.as_str().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_read_as_it_was_written() {
        for word in ["changeit", "", "a b'\"$(x)`\\", "ü"] {
            let text = text(Path::new("/a b"), &SecretString::from(word.to_owned())).unwrap();
            for leaf in [Leaf::Server, Leaf::Client] {
                assert_eq!(password(&text, leaf).unwrap().expose_secret(), word);
            }
            assert_eq!(text.lines().count(), 19);
            // They would take precedence over the PKCS#12 file and its password, which the file names too.
            assert!(!text.contains("PemPath") && !text.contains("PrivateKeyPath"));
        }
        let plain = "export CLIENT_PFX_PASSWORD=changeit\n";
        assert_eq!(password(plain, Leaf::Client).unwrap().expose_secret(), "changeit");
        assert!(password(plain, Leaf::Server).is_none());
    }
}
