import { COMPAT } from "../vectors/compat.js";
import { eachVector } from "./folder.js";

eachVector("session", COMPAT);
