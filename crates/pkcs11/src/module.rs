//! Calls of a vendor's module, in the host process alone.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Function, Pkcs11};
use cryptoki::error::{Error as ModuleError, RvError};
use cryptoki::mechanism::aead::GcmParams;
use cryptoki::mechanism::dsa::{HedgeType, SignAdditionalContext};
use cryptoki::mechanism::eddsa::{EddsaParams, EddsaSignatureScheme};
use cryptoki::mechanism::rsa::{PkcsMgfType, PkcsOaepParams, PkcsOaepSource, PkcsPssParams};
use cryptoki::mechanism::{Mechanism, MechanismType};
use cryptoki::object::{
    Attribute, AttributeType, KeyType, MlDsaParameterSetType, ObjectClass, ObjectHandle, ParameterSetType,
};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::{Slot, TokenInfo};
use cryptoki::types::{AuthPin, Ulong};

use crate::message::{Decrypt, GcmText, Generate, GenerateKey, KeyName, Open, Operation, Scheme, SecretKind, Sign};
use crate::{Error, Fault, spki};

/// Most cached handles of a session.
const HANDLES_MAX: usize = 1024;

/// A loaded module with its token.
pub(crate) struct Module {
    context: Pkcs11,
    slot: Slot,
    /// True once the token has shown an object: without any from then on, it is another token, or none.
    had_objects: AtomicBool,
}

impl Module {
    /// Loads a module, finds the token, and logs in. The login holds for all sessions of the process, as long as one is
    /// open: the returned one.
    pub(crate) fn open(mut open: Open) -> Result<(Module, Session), Error> {
        // The box takes the text over, and wipes it.
        let pin = AuthPin::from(std::mem::take(&mut open.pin).into_boxed_str());
        let context = Pkcs11::new(&open.module)?;
        let initialized = context.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK));
        initialized.map_err(|err| Error::new(Fault::Module, Error::from(err).detail))?;
        let fits =
            |wanted: &Option<String>, value: &str| wanted.as_ref().is_none_or(|wanted| wanted == value.trim_end());
        let mut found: Option<(Slot, TokenInfo)> = None;
        for slot in context.get_slots_with_token()? {
            // A slot whose token is just removed is not there.
            let Ok(info) = context.get_token_info(slot) else { continue };
            if info.token_initialized()
                && fits(&open.token, info.label())
                && fits(&open.serial, info.serial_number())
                && fits(&open.manufacturer, info.manufacturer_id())
                && fits(&open.model, info.model())
                && found.replace((slot, info)).is_some()
            {
                return Err(Fault::SeveralTokens.into());
            }
        }
        let (slot, info) = found.ok_or(Fault::TokenAbsent)?;
        if info.user_pin_locked() {
            return Err(Fault::PinLocked.into());
        }
        if info.user_pin_final_try() {
            return Err(Fault::PinFinalTry.into());
        }
        let module = Module { context, slot, had_objects: AtomicBool::new(false) };
        let session = module.context.open_rw_session(slot)?;
        session.login(UserType::User, Some(&pin)).map_err(login_failed)?;
        Ok((module, session))
    }
}

/// A session and its handles of keys. Each thread of the host has one.
#[derive(Default)]
pub(crate) struct Worker {
    session: Option<Session>,
    handles: HashMap<(bool, KeyName), ObjectHandle>,
}

impl Worker {
    fn session(&mut self, module: &Module) -> Result<&Session, Error> {
        match &mut self.session {
            Some(session) => Ok(session),
            empty => Ok(empty.insert(module.context.open_rw_session(module.slot)?)),
        }
    }

    /// Runs an operation. After a failure no state of the session stays.
    pub(crate) fn run(&mut self, module: &Module, operation: Operation) -> Result<Vec<u8>, Error> {
        let is_padded = matches!(operation, Operation::Decrypt(_));
        let done = self.dispatch(module, operation);
        if is_padded && done.is_ok() {
            // The same work as after a padding that does not decrypt: the time must not tell the two apart.
            self.session = None;
            self.handles.clear();
            self.check(module)?;
        }
        if let Err(err) = &done {
            self.session = None;
            self.handles.clear();
            // A failing token may answer like a text that does not decrypt, and a removed one like one without the key: only
            // a working one decides.
            if matches!(err.fault, Fault::Data | Fault::KeyNotFound) {
                self.check(module)?;
            }
        }
        done
    }

    fn dispatch(&mut self, module: &Module, operation: Operation) -> Result<Vec<u8>, Error> {
        match operation {
            Operation::Open(_) => Err(Error::new(Fault::Device, "the module is open")),
            Operation::Ping(_) => self.check(module).map(|()| Vec::new()),
            Operation::Public(key) => self.public(module, &key),
            Operation::Secret(key) => self.secret(module, &key),
            Operation::Sign(sign) => self.sign(module, &sign),
            Operation::Decrypt(decrypt) => self.decrypt(module, &decrypt),
            Operation::Gcm(text) => self.gcm(module, text),
            Operation::Generate(generate) => self.generate(module, generate),
        }
    }

    /// Checks that the token is present, that the login holds, and that it finds objects.
    fn check(&mut self, module: &Module) -> Result<(), Error> {
        let info = module.context.get_token_info(module.slot)?;
        if info.error_state() {
            return Err(Error::new(Fault::Device, "its error state is set"));
        }
        let session = self.session(module)?;
        session.get_session_info()?;
        let wanted = [Attribute::Token(true), Attribute::Private(true)];
        let first = session.iter_objects_with_cache_size(&wanted, NonZeroUsize::MIN)?.next().transpose()?;
        let absent = |detail: &str| Error::new(Fault::TokenAbsent, detail);
        match first {
            // Some modules answer from memory until an object is read.
            Some(object) => {
                let read = session.get_attributes(object, &[AttributeType::Class]);
                read.map_err(|err| absent(&Error::from(err).detail))?;
                module.had_objects.store(true, Ordering::Relaxed);
            }
            None if module.had_objects.load(Ordering::Relaxed) => return Err(absent("its objects are gone")),
            None => {}
        }
        Ok(())
    }

    /// Finds a private or a secret key, also by a handle from before.
    fn key(&mut self, module: &Module, key: &KeyName, is_private: bool) -> Result<ObjectHandle, Error> {
        let place = (is_private, key.clone());
        if let Some(handle) = self.handles.get(&place) {
            return Ok(*handle);
        }
        let class = if is_private { ObjectClass::PRIVATE_KEY } else { ObjectClass::SECRET_KEY };
        let handle = self.find(module, key, class)?.ok_or(Fault::KeyNotFound)?;
        if self.handles.len() >= HANDLES_MAX {
            self.handles.clear();
        }
        self.handles.insert(place, handle);
        Ok(handle)
    }

    fn find(&mut self, module: &Module, key: &KeyName, class: ObjectClass) -> Result<Option<ObjectHandle>, Error> {
        if key.id.is_none() && key.label.is_none() {
            return Err(Fault::KeyNotFound.into());
        }
        let mut template = vec![Attribute::Class(class), Attribute::Token(true)];
        template.extend(key.id.clone().map(Attribute::Id));
        template.extend(key.label.clone().map(|label| Attribute::Label(label.into_bytes())));
        match self.session(module)?.find_objects(&template)?.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(*one)),
            _ => Err(Fault::SeveralKeys.into()),
        }
    }

    fn public(&mut self, module: &Module, key: &KeyName) -> Result<Vec<u8>, Error> {
        let private = self.key(module, key, true)?;
        // The public object of the same name has the public half; for RSA the private key has it too.
        let public = self.find(module, key, ObjectClass::PUBLIC_KEY)?;
        let handle = public.unwrap_or(private);
        let wanted = [AttributeType::KeyType];
        let session = self.session(module)?;
        let kind = session.get_attributes(handle, &wanted)?.into_iter().find_map(|attribute| match attribute {
            Attribute::KeyType(kind) => Some(kind),
            _ => None,
        });
        let missing = || Error::new(Fault::KeyUnfit, "no public key of the same label and id is on the token");
        let kind = kind.ok_or_else(missing)?;
        if kind == KeyType::RSA {
            let wanted = [AttributeType::Modulus, AttributeType::PublicExponent];
            let (mut modulus, mut exponent) = (None, None);
            for attribute in session.get_attributes(handle, &wanted)? {
                match attribute {
                    Attribute::Modulus(bytes) => modulus = Some(bytes),
                    Attribute::PublicExponent(bytes) => exponent = Some(bytes),
                    _ => {}
                }
            }
            let exponent = exponent.ok_or_else(missing)?;
            // FIPS 186-5 section A.1.1: 2^16 < e. Forged paddings exploit small exponents.
            let significant = exponent.iter().skip_while(|byte| **byte == 0).count();
            if significant < 3 {
                return Err(Error::new(Fault::KeyUnfit, "its exponent is less than 65537"));
            }
            return Ok(spki::rsa(&modulus.ok_or_else(missing)?, &exponent));
        }
        if kind == KeyType::ML_DSA {
            // The private key's value is its secret: only the public object has the public half.
            return ml_dsa_public(session, public.ok_or_else(missing)?)?.ok_or_else(missing);
        }
        let (mut params, mut point) = (None, None);
        for attribute in session.get_attributes(handle, &[AttributeType::EcParams, AttributeType::EcPoint])? {
            match attribute {
                Attribute::EcParams(bytes) => params = Some(bytes),
                Attribute::EcPoint(bytes) => point = Some(bytes),
                _ => {}
            }
        }
        let point = point.ok_or_else(missing)?;
        match kind {
            KeyType::EC => Ok(spki::ec(&params.ok_or_else(missing)?, &point)),
            KeyType::EC_EDWARDS => Ok(spki::ed25519(&point)),
            _ => Err(Error::new(Fault::KeyUnfit, "its type is not RSA, EC, Edwards or ML-DSA")),
        }
    }

    /// Type and length: a byte of the kind, and four of the length; 0 for a length that the token does not tell.
    fn secret(&mut self, module: &Module, key: &KeyName) -> Result<Vec<u8>, Error> {
        let handle = self.key(module, key, false)?;
        let session = self.session(module)?;
        let (mut kind, mut len) = (None, 0_u64);
        for attribute in session.get_attributes(handle, &[AttributeType::KeyType, AttributeType::ValueLen])? {
            match attribute {
                Attribute::KeyType(found) => kind = Some(found),
                Attribute::ValueLen(found) => len = u64::from(found),
                _ => {}
            }
        }
        let kind = match kind {
            Some(KeyType::AES) => SecretKind::Aes,
            Some(KeyType::GENERIC_SECRET | KeyType::SHA256_HMAC) => SecretKind::Generic,
            _ => return Err(Error::new(Fault::KeyUnfit, "its type is not AES or a generic secret")),
        };
        let len = u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
        Ok([&[u8::try_from(i32::from(kind)).unwrap_or(0)], len.as_slice()].concat())
    }

    fn sign(&mut self, module: &Module, sign: &Sign) -> Result<Vec<u8>, Error> {
        let pss = |hash_alg, mgf, len: u64| Mechanism::RsaPkcsPss(PkcsPssParams { hash_alg, mgf, s_len: len.into() });
        let (mechanism, is_private) = match Scheme::try_from(sign.scheme).map_err(|_| Fault::Mechanism)? {
            Scheme::Ecdsa => (Mechanism::Ecdsa, true),
            Scheme::RsaPkcs1 => (Mechanism::RsaPkcs, true),
            Scheme::RsaPss256 => (pss(MechanismType::SHA256, PkcsMgfType::MGF1_SHA256, 32), true),
            Scheme::RsaPss384 => (pss(MechanismType::SHA384, PkcsMgfType::MGF1_SHA384, 48), true),
            Scheme::RsaPss512 => (pss(MechanismType::SHA512, PkcsMgfType::MGF1_SHA512, 64), true),
            Scheme::Ed25519 => (Mechanism::Eddsa(EddsaParams::new(EddsaSignatureScheme::Pure)), true),
            // Without parameters: the token chooses between hedged and deterministic, and both verify alike.
            Scheme::MlDsa => (Mechanism::MlDsa(SignAdditionalContext::new(HedgeType::Preferred, None)), true),
            Scheme::Hmac256 => (Mechanism::Sha256Hmac, false),
            Scheme::Hmac384 => (Mechanism::Sha384Hmac, false),
            Scheme::Hmac512 => (Mechanism::Sha512Hmac, false),
        };
        let handle = self.key(module, &sign.key, is_private)?;
        Ok(self.session(module)?.sign(&mechanism, handle, &sign.input)?)
    }

    fn decrypt(&mut self, module: &Module, decrypt: &Decrypt) -> Result<Vec<u8>, Error> {
        let (hash, mgf) = match decrypt.is_sha1 {
            true => (MechanismType::SHA1, PkcsMgfType::MGF1_SHA1),
            false => (MechanismType::SHA256, PkcsMgfType::MGF1_SHA256),
        };
        let mechanism = Mechanism::RsaPkcsOaep(PkcsOaepParams::new(hash, mgf, PkcsOaepSource::empty()));
        let handle = self.key(module, &decrypt.key, true)?;
        self.session(module)?.decrypt(&mechanism, handle, &decrypt.input).map_err(|err| match err {
            // What kryoptic answers a padding that does not fit. As a failure of the device it would end the host, for everybody,
            // and tell the sender about the padding.
            ModuleError::Pkcs11(RvError::DeviceError, Function::Decrypt) => Fault::Data.into(),
            err => undecrypted(err),
        })
    }

    fn gcm(&mut self, module: &Module, mut text: GcmText) -> Result<Vec<u8>, Error> {
        let handle = self.key(module, &text.key, false)?;
        let tag_bits = Ulong::from(u64::from(text.tag_len) * 8);
        let mechanism = Mechanism::AesGcm(GcmParams::new(&mut text.nonce, &text.aad, tag_bits)?);
        let session = self.session(module)?;
        if text.opens {
            return session.decrypt(&mechanism, handle, &text.input).map_err(undecrypted);
        }
        let sealed = session.encrypt(&mechanism, handle, &text.input)?;
        let expected = text.input.len() + usize::try_from(text.tag_len).unwrap_or(usize::MAX);
        if sealed.len() == expected {
            Ok(sealed)
        } else {
            Err(Error::new(Fault::Device, "a ciphertext of another length"))
        }
    }

    fn generate(&mut self, module: &Module, generate: GenerateKey) -> Result<Vec<u8>, Error> {
        let kind = Generate::try_from(generate.kind).map_err(|_| Fault::Mechanism)?;
        let KeyName { id: Some(id), label: Some(label) } = generate.key else {
            return Err(Error::new(Fault::KeyUnfit, "a key to generate needs a label and an id"));
        };
        let by_label = KeyName { id: None, label: Some(label.clone()) };
        for class in [ObjectClass::PRIVATE_KEY, ObjectClass::PUBLIC_KEY, ObjectClass::SECRET_KEY] {
            if !matches!(self.find(module, &by_label, class), Ok(None)) {
                return Err(Fault::KeyExists.into());
            }
        }
        let size = u64::from(generate.size);
        let named =
            || [Attribute::Token(true), Attribute::Id(id.clone()), Attribute::Label(label.clone().into_bytes())];
        let hidden = || [Attribute::Private(true), Attribute::Sensitive(true), Attribute::Extractable(false)];
        let session = self.session(module)?;
        let pair = |mechanism: &Mechanism<'_>, usage: [Vec<Attribute>; 2], more: &[Attribute]| {
            let [public_usage, private_usage] = usage;
            let public = [&named(), more, &[Attribute::Private(false)], &public_usage].concat();
            let private = [named().as_slice(), &hidden(), &private_usage].concat();
            session.generate_key_pair(mechanism, &public, &private).map(|_| Vec::new())
        };
        let secret = |mechanism: &Mechanism<'_>, usage: &[Attribute]| {
            let all = [named().as_slice(), &hidden(), &[Attribute::ValueLen(size.into())], usage].concat();
            session.generate_key(mechanism, &all).map(|_| Vec::new())
        };
        let signs = || [vec![Attribute::Verify(true)], vec![Attribute::Sign(true), Attribute::Decrypt(false)]];
        let rsa = [Attribute::ModulusBits(size.into()), Attribute::PublicExponent(vec![1, 0, 1])];
        let curve = |oid: &[u8]| [Attribute::EcParams(oid.to_vec())];
        let ml_dsa = |set: MlDsaParameterSetType| {
            let set = [Attribute::ParameterSet(ParameterSetType::from(set))];
            pair(&Mechanism::MlDsaKeyPairGen, signs(), &set)
        };
        let made = match kind {
            Generate::P256 => {
                pair(&Mechanism::EccKeyPairGen, signs(), &curve(b"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07"))
            }
            Generate::P384 => pair(&Mechanism::EccKeyPairGen, signs(), &curve(b"\x06\x05\x2b\x81\x04\x00\x22")),
            Generate::P521 => pair(&Mechanism::EccKeyPairGen, signs(), &curve(b"\x06\x05\x2b\x81\x04\x00\x23")),
            // A PrintableString, which all modules since version 3.0 of the standard know.
            Generate::Ed25519 => pair(&Mechanism::EccEdwardsKeyPairGen, signs(), &curve(b"\x13\x0cedwards25519")),
            Generate::MlDsa44 => ml_dsa(MlDsaParameterSetType::ML_DSA_44),
            Generate::MlDsa65 => ml_dsa(MlDsaParameterSetType::ML_DSA_65),
            Generate::MlDsa87 => ml_dsa(MlDsaParameterSetType::ML_DSA_87),
            Generate::RsaSign => pair(&Mechanism::RsaPkcsKeyPairGen, signs(), &rsa),
            Generate::RsaDecrypt => {
                let usage = [vec![Attribute::Encrypt(true)], vec![Attribute::Decrypt(true), Attribute::Sign(false)]];
                pair(&Mechanism::RsaPkcsKeyPairGen, usage, &rsa)
            }
            Generate::Aes => secret(&Mechanism::AesKeyGen, &[Attribute::Encrypt(true), Attribute::Decrypt(true)]),
            Generate::Hmac => secret(
                &Mechanism::GenericSecretKeyGen,
                &[Attribute::KeyType(KeyType::GENERIC_SECRET), Attribute::Sign(true), Attribute::Verify(true)],
            ),
        };
        Ok(made?)
    }
}

/// Reads a public ML-DSA key as SubjectPublicKeyInfo; `None` if its attributes do not name a parameter set and a key of it.
fn ml_dsa_public(session: &Session, public: ObjectHandle) -> Result<Option<Vec<u8>>, Error> {
    let (mut set, mut value) = (None, None);
    for attribute in session.get_attributes(public, &[AttributeType::ParameterSet, AttributeType::Value])? {
        match attribute {
            Attribute::ParameterSet(found) => set = Some(MlDsaParameterSetType::from(found)),
            Attribute::Value(bytes) => value = Some(bytes),
            _ => {}
        }
    }
    let set = match set {
        Some(MlDsaParameterSetType::ML_DSA_44) => spki::MlDsa::MlDsa44,
        Some(MlDsaParameterSetType::ML_DSA_65) => spki::MlDsa::MlDsa65,
        Some(MlDsaParameterSetType::ML_DSA_87) => spki::MlDsa::MlDsa87,
        _ => return Ok(None),
    };
    Ok(value.and_then(|value| spki::ml_dsa(set, &value)))
}

/// Error of a login. A failure that says nothing of the PIN may count as a wrong one: the next try comes later.
fn login_failed(err: ModuleError) -> Error {
    let err = Error::from(err);
    match err.fault {
        Fault::PinWrong | Fault::PinLocked | Fault::TokenAbsent | Fault::SessionCount => err,
        _ => Error::new(Fault::Login, err.detail),
    }
}

/// Error of a decryption. Some modules answer a text that does not decrypt with a general error.
fn undecrypted(err: ModuleError) -> Error {
    match err {
        ModuleError::Pkcs11(
            RvError::GeneralError | RvError::FunctionFailed | RvError::ArgumentsBad,
            Function::Decrypt,
        ) => Fault::Data.into(),
        ModuleError::Pkcs11(RvError::ArgumentsBad, Function::DecryptInit) => {
            Error::new(Fault::Mechanism, "not with these parameters")
        }
        err => err.into(),
    }
}
