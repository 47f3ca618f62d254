import { suite } from "./suite.mjs";

suite("Angular", "../angular-spa/dist/browser/");
