//! `sealway call --once`: one sealed request without a session (wire 4).

use anyhow::{Context, bail};
use http::Request;
use sealway_client::{Body, OneShotTrust, Wire};
use sealway_proto::wire::base64;
use sealway_runtime::config::read_secret;

use super::{Call, builder, data, headers, root_key, show, target, typed};

/// Makes the call: prints the opened answer on standard output, and requested details on standard error.
pub(super) async fn run(args: &Call) -> anyhow::Result<()> {
    let (method, url) = target(args, Wire::Native)?;
    let data = args.data.as_deref().map_or(Ok(Vec::new()), data)?;
    let headers = typed(headers(&args.headers)?, &data);
    let trust = match &args.root {
        Some(root) => OneShotTrust::Root(root_key(root)?),
        None if args.pins.is_empty() => bail!("--once: pin the service's key (--pin hpke:…), or its root (--root)"),
        None => OneShotTrust::pins(args.pins.iter().map(String::as_str)).context("--pin")?,
    };
    let mut client = builder(args, url.clone(), Wire::Native)?.one_shot(trust)?;
    if let (Some(id), Some(file)) = (&args.once.psk, &args.once.psk_file) {
        let key = base64::decode_array(&read_secret(file)?);
        let key = key.map_err(|_| anyhow::anyhow!("--psk-file: {}: expected 32 bytes in base64", file.display()))?;
        client = client.psk(id, key)?;
    }
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::new(Body::from(data));
    (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = (method.clone(), path.parse()?, headers);
    let answer = client.send(request).await?;
    let (status, _) = show(args, true, (&method, path), answer).await?;
    if !status.is_success() {
        bail!("the service answered {status}");
    }
    Ok(())
}
