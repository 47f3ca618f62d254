#!/usr/bin/env python3
"""Lints certificates with pkilint, all in one process: names of PEM files come in, a line of JSON goes out for each."""

import json
import sys

from pkilint import loader
from pkilint.pkix import certificate, extension, name
from pkilint.validation import ValidationFindingSeverity

validator = certificate.create_pkix_certificate_validator_container(
    certificate.create_decoding_validators(name.ATTRIBUTE_TYPE_MAPPINGS, extension.EXTENSION_MAPPINGS),
    [
        certificate.create_issuer_validator_container([]),
        certificate.create_validity_validator_container(),
        certificate.create_subject_validator_container([]),
        certificate.create_extensions_validator_container([]),
        certificate.create_spki_validator_container([]),
    ],
)
load = loader.RFC5280CertificateDocumentLoader().load_pem_file

for path in sys.stdin.read().split():
    with open(path, "rb") as file:
        results = validator.validate(load(file, path).root)
    findings = sorted(
        {
            description.finding.code
            for result in results
            for description in result.finding_descriptions
            if description.finding.severity >= ValidationFindingSeverity.INFO
        }
    )
    print(json.dumps({"file": path, "findings": findings}))
