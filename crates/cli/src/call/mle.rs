//! `sealway call --mle`: a request whose body is sealed as a card scheme does, without a session.

use anyhow::{Context, anyhow, bail};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Uri};
use sealway_client::Wire;
use sealway_client::mle::{MessageError, MessageSettings, Messages, SettingError, SignatureSettings};
use sealway_gateway::jose_provider;
use sealway_proto::mle::sign::jws::X_JWS_SIGNATURE;
use sealway_runtime::output::tell;

use super::{Out, builder, data, headers, target};
use crate::args::{Call, CallMle};

/// Seals the body, sends it, and prints the opened answer. An error that the service reports in clear is printed as it came.
pub(super) async fn run(args: &Call, profile: &str) -> anyhow::Result<()> {
    let messages = messages(args, profile)?;
    // Its methods are those of any HTTP request, as on wire 3.
    let (method, url) = target(args, Wire::Native)?;
    let mut headers = headers(&args.headers)?;
    let plain = args.data.as_deref().map(data).transpose()?;
    let sealed = plain.as_deref().map(|plain| messages.seal(plain)).transpose().context("--data")?;
    if sealed.is_some() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(messages.content_type()));
    }
    if let Some(signature) = messages.signature(sealed.as_deref().unwrap_or_default())? {
        headers.insert(X_JWS_SIGNATURE, HeaderValue::try_from(signature)?);
    }
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    if args.verbose {
        let (profile, enc) = messages.names();
        tell(format_args!("sealed as {profile} with {enc} to the key {:?}", messages.kid()));
        tell(format_args!("> {method} {path}\n> {} sealed bytes", sealed.as_ref().map_or(0, Vec::len)));
    }
    // The client of a session carries a message that is sealed already, and agrees none for it.
    let client = builder(args, url.clone(), Wire::V2)?.build()?;
    let mut request = Request::new(sealed.unwrap_or_default().into());
    (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = (method, path.parse::<Uri>()?, headers);
    let (head, body) = client.send_sealed(request).await?.into_parts();
    if args.verbose {
        tell(format_args!("< {}", head.status));
        for (name, value) in &head.headers {
            tell(format_args!("< {name}: {}", String::from_utf8_lossy(value.as_bytes())));
        }
        tell(format_args!("< {} bytes", body.len()));
    }
    let mut out = Out::open(args.output.as_deref())?;
    let is_clear = !head.status.is_success() && !messages.is_message(&body);
    if is_clear || body.is_empty() {
        out.write(&body)?;
    } else {
        let signature = head.headers.get(X_JWS_SIGNATURE).and_then(|value| value.to_str().ok());
        out.write(&messages.open(&body, signature).map_err(|err| unopened(err, args))?)?;
    }
    out.finish()?;
    if !head.status.is_success() {
        bail!("the service answered {}{}", head.status, if is_clear { ", in clear" } else { "" });
    }
    Ok(())
}

/// Loads the keys; an error names the flag and the file.
fn messages(args: &Call, profile: &str) -> anyhow::Result<Messages> {
    let mle = &args.mle;
    let settings = MessageSettings {
        profile: profile.to_owned(),
        certificate: mle.certificate.clone().context("--certificate is missing")?,
        kid: mle.kid.clone(),
        kid_from: mle.kid_from.clone(),
        enc: mle.enc.clone(),
        key: mle.key.clone().context("--key is missing")?,
        key_certificate: mle.key_certificate.clone(),
        key_kid: mle.key_kid.clone(),
        signatures: signatures(mle)?,
    };
    let named = |err: SettingError| {
        let flag = if err.setting == "profile" { "mle".into() } else { err.setting.replace('_', "-") };
        anyhow!("--{flag}: {}", err.reason)
    };
    settings.load(jose_provider()).map_err(named)
}

/// Collects the flags of open banking, which come together.
fn signatures(mle: &CallMle) -> anyhow::Result<Option<SignatureSettings>> {
    let Some(sign_key) = mle.sign_key.clone() else { return Ok(None) };
    let text = |flag: &str, value: &Option<String>| value.clone().with_context(|| format!("{flag} is missing"));
    Ok(Some(SignatureSettings {
        sign_key,
        sign_kid: text("--sign-kid", &mle.sign_kid)?,
        verify_key: mle.verify_key.clone().context("--verify-key is missing")?,
        verify_kid: text("--verify-kid", &mle.verify_kid)?,
        verify_alg: mle.verify_alg.clone(),
        issuer: text("--issuer", &mle.issuer)?,
        audience: text("--audience", &mle.audience)?,
        trust_anchor: mle.trust_anchor.clone(),
    }))
}

fn unopened(err: MessageError, args: &Call) -> anyhow::Error {
    let key = args.mle.key.as_deref().map(|key| key.display().to_string()).unwrap_or_default();
    anyhow!("the answer does not open with --key {key}: {err}")
}
