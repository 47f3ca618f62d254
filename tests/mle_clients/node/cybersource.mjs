// Cybersource's SDK as it is: createPayment of an order through its intermediateHost, with MLE of requests and answers.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

import { check } from "./check.mjs";

const sdk = createRequire(import.meta.url)("cybersource-rest-client");

/** The order that the service declines. */
const DECLINED = "declined";

function clientOf(spec) {
  const configuration = {
    authenticationType: "JWT",
    runEnvironment: "apitest.cybersource.com",
    intermediateHost: spec.url,
    merchantID: spec.merchant,
    keyAlias: spec.merchant,
    keyPass: spec.password,
    keyFileName: spec.merchant,
    keysDirectory: spec.folder,
    mleForRequestPublicCertPath: spec.seal.certificate,
    enableRequestMLEForOptionalApisGlobally: true,
    enableResponseMleGlobally: true,
    responseMlePrivateKeyFilePath: spec.open.key,
    responseMleKID: spec.open.kid,
    logConfiguration: { enableLog: false },
  };
  return new sdk.PaymentsApi(configuration, new sdk.ApiClient());
}

function orderOf(code, words) {
  const order = new sdk.CreatePaymentRequest();
  order.clientReferenceInformation = { code };
  order.orderInformation = {
    amountDetails: { totalAmount: "102.21", currency: "USD" },
    billTo: { firstName: words, lastName: "Doe", address1: "1 Market St", country: "US" },
  };
  order.paymentInformation = {
    card: { number: "4111111111111111", expirationMonth: "12", expirationYear: "2031" },
  };
  return order;
}

function payment(api, order) {
  return new Promise((resolve) => api.createPayment(order, (error, data, response) => resolve({ error, data, response })));
}

export async function cybersource(spec) {
  const words = JSON.parse(readFileSync(spec.bodies, "utf8"));
  const api = clientOf(spec);
  for (let index = 0; index < spec.count; index++) {
    const isDeclined = index % 5 === 4;
    const name = words[index % words.length];
    const code = isDeclined ? DECLINED : `order-${index}`;
    const { error, data, response } = await payment(api, orderOf(code, name));
    const what = `round ${index}, ${code}, ${name}:`;
    if (isDeclined) {
      check(error?.status === 400 || response?.status === 400, what, String(error), response?.text);
      const body = JSON.parse(error?.response?.text ?? response?.text);
      check(body.status === "INVALID_REQUEST" && body.reason === "MISSING_FIELD", what, body);
      continue;
    }
    check(!error, what, String(error?.message ?? error), error?.response?.text);
    check(response.status === 201, what, `status ${response.status}`);
    check(data.status === "AUTHORIZED" && data.id === "7".repeat(22), what, data);
    check(data.clientReferenceInformation.code === code, what, data);
    check(JSON.parse(response.text).echo === name, what, response.text);
  }
  console.log(`${spec.count} round trips`);
  // The SDK keeps idle connections.
  process.exit(0);
}
