import { runFolder } from "../vectors/folder.js";
import { SESSION3 } from "../vectors/session3.js";

runFolder("session3", SESSION3);
